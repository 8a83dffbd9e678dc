"""Scripts that run inside the environment of a peer: `child.py` measures, `<peer>_run.py` calls the peer.

Only the standard library, numpy, scipy and the peer itself may be imported here, and nothing of treetop except in
`treetop_run.py`, because these files run in environments where treetop is not installed. An adapter is a module with

    versions() -> names and versions of what is measured
    prepare(job)                      optional: files the peer wants, before any clock runs
    load_data(job)                    optional: the training data in the peer's own form instead of (X, Y)
    train(job, *data) -> model        on the clock
    save(model, folder)               off the clock
    settings(job) -> {name: values}   ways to predict that are tried; the best one counts
    load(job, setting) -> predictor
    pack(X) -> rows                   optional: the peer's own form of documents, off the clock
    predict(predictor, rows, job) -> raw answers          on the clock
    unpack(raw, job) -> ids (n, k) int, scores (n, k)     off the clock
    predict_one(predictor, row, job)                      on the clock
"""
