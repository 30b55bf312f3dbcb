# SPDX-License-Identifier: Apache-2.0
"""A GPT-2-sized model (124 M, fp16, batch 1) that makes one token after the other."""
import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, LAYERS, WORDS, LENGTH = 768, 12, 12, 50257, 256


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.width = width
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for name in ("k", "v"):
            self.register_buffer(name, torch.zeros(1, heads, LENGTH, width // heads))

    def forward(self, x, at, mask):
        q, k, v = (t.view(1, 1, self.k.shape[1], -1).transpose(1, 2)
                   for t in self.qkv(self.ln1(x)).split(self.width, dim=2))
        self.k.index_copy_(2, at, k)
        self.v.index_copy_(2, at, v)
        a = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)
        x = x + self.out(a.transpose(1, 2).reshape(1, 1, self.width))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(width)

    def forward(self, token, at):
        x = self.words(token) + self.places(at)
        mask = (torch.arange(LENGTH, device="cuda") <= at)[None, None, None, :]
        for layer in self.layers:
            x = layer(x, at, mask)
        return F.linear(self.ln(x), self.words.weight).argmax(-1)


def decoder(width=WIDTH, heads=HEADS, layers=LAYERS, first=torch.float):
    """Returns a function that makes the next token. Weights are of the type `first` at first,
    whose memory torch keeps."""
    torch.manual_seed(1)
    torch.set_default_dtype(first)
    with torch.device("cuda"):
        model = Model(width, heads, layers).half().eval()
    torch.set_default_dtype(torch.float)
    token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    at = torch.zeros(1, dtype=torch.long, device="cuda")

    @torch.no_grad()
    def step():
        token.copy_(model(token, at))
        at.add_(1).remainder_(LENGTH)

    return step


def captured(step):
    """Returns what replays a CUDA graph of it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay
