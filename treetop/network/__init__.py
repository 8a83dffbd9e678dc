"""What learns? A network is an encoder, a sampler and heads.

A *head* is (view and projection, label vectors, candidates, loss). A *sampler* fixes, before the forward pass, the rows
of a step and what else is read. So training mirrors prediction, where a level is (view, shortlist, rank).

| file | answer |
|---|---|
| `head.py` | one head: its plan (from which forecasts come, too), its loss in a step, the rank it becomes |
| `network.py` | an encoder and heads trained together on rows: the task of the loop |
| `pool.py` | the same on batches whose rows share a pool of labels, read with them |
| `mining.py` | retrieval with the current network: labels of held-out texts, hard negatives |
| `inputs.py` | where views come from: an encoder that learns, or vectors computed once by a frozen one |
| `projection.py` | what lies between a view and the label vectors |
| `targets.py` | positives, relevance weights and ignored pairs of a batch, on the device |
| `init.py` | where label vectors and biases start |
| `forecast.py` | memory and time of a training, from the plans of its heads |
| `fit.py` | from texts to trained heads, in resumable stages |
| `settings.py` | the settings all networks share |

| folder | question | answers |
|---|---|---|
| `vectors/` | what represents a label? | `dense`, `rows`, `full`, `full_low`, `parts`, `attention` |
| `candidates/` | which labels does a row score? | `everything`, `below`, `given` |
| `losses/` | what is a wrong score worth? | one file per loss |
| `samplers/` | which rows and labels meet in a step? | `mix`, `pools`, `clustered` |
"""
