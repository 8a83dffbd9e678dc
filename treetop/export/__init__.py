"""How does a model answer where treetop is not installed? As an ONNX graph, with the files that say how to feed it.

| file | holds |
|---|---|
| `folder.py` | the folder that is written, and the check that it answers as the model does |
| `inputs.py` | what the graph reads, and how texts become it |
| `views.py`, `encoder_views.py` | the views that levels read (layers of encoders: `features/encoder/onnx_layers.py`) |
| `walk.py`, `margins.py` | levels with the beam unrolled, and the margins of their nodes |
| `blend.py`, `fuse.py` | members and sources joined, scores as probabilities |

Graphs are built with `core/graph.py`.
"""
