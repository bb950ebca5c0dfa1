"""A stand-in SGLang, standard library only, with faults on demand.

`sglang` is its code: an HTTP process and a child scheduler; `interpreter` makes a Python that
starts it. `recorded` is what real servers answered, written by `record`: the replies are held
against that.

0.5.23 answered as published, on the CPU engine. 0.5.16 does not serve there: its replies come from
a copy whose calls into the CPU attention kernels were adapted, HTTP server, tokenizer manager and
scheduler as published; its /server_info is that of an H200.
"""
