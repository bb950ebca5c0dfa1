"""A stand-in SGLang, standard library only, with faults on demand.

`sglang` is its code: an HTTP process and a child scheduler; `interpreter` makes a Python that
starts it. `recorded` is what real servers answered, written by `record`: the replies are held
against that.
"""
