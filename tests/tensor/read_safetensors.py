# SPDX-License-Identifier: BSD-3-Clause
# Reads a safetensors file with numpy alone and prints every tensor: an independent witness of our writer.
import json
import sys

import numpy as np

with open(sys.argv[1], "rb") as file:
    contents = file.read()
length = int.from_bytes(contents[:8], "little")
header = json.loads(contents[8 : 8 + length])
metadata = header.pop("__metadata__", {})
data = contents[8 + length :]
end_before = 0
for name, entry in header.items():
    begin, end = entry["data_offsets"]
    assert entry["dtype"] == "F32" and begin == end_before and (8 + length + begin) % 4 == 0
    tensor = np.frombuffer(data[begin:end], dtype="<f4").reshape(entry["shape"])
    print(name, tensor.shape, tensor.ravel().tolist())
    end_before = end
assert end_before == len(data)
print("metadata", metadata)
