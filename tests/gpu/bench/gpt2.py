# SPDX-License-Identifier: Apache-2.0
"""A GPT-2-sized model (124 M, fp16, batch 1) that makes one token after the other."""
import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, LAYERS, WORDS, LENGTH = 768, 12, 12, 50257, 256


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        for name in ("k", "v"):
            self.register_buffer(name, torch.zeros(1, HEADS, LENGTH, WIDTH // HEADS))

    def forward(self, x, at, mask):
        q, k, v = (t.view(1, 1, HEADS, -1).transpose(1, 2)
                   for t in self.qkv(self.ln1(x)).split(WIDTH, dim=2))
        self.k.index_copy_(2, at, k)
        self.v.index_copy_(2, at, v)
        a = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)
        x = x + self.out(a.transpose(1, 2).reshape(1, 1, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH)

    def forward(self, token, at):
        x = self.words(token) + self.places(at)
        mask = (torch.arange(LENGTH, device="cuda") <= at)[None, None, None, :]
        for layer in self.layers:
            x = layer(x, at, mask)
        return F.linear(self.ln(x), self.words.weight).argmax(-1)


def decoder():
    """Returns a function that makes the next token."""
    torch.manual_seed(1)
    model = Model().cuda().half().eval()
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
