#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MuJoCo, moderngl, VTK and PyOpenGL out of PyPI draw a picture each, by the machine's own
rasteriser and by Weft: the same one, to the bit.

    packages.py BUILD DIR

DIR gets a virtual environment, 1 GB; what is there is used again. Exit status 77: Mesa's driver
finds another server at its place.
"""
import os
import subprocess
import sys
import time
import venv

PACKAGES = ["mujoco", "moderngl", "PyOpenGL", "vtk", "numpy"]
SOCKET = "/tmp/.virgl_test"
HOST = {"LIBGL_ALWAYS_SOFTWARE": "true", "EGL_PLATFORM": "surfaceless", "MUJOCO_GL": "egl",
        "PYOPENGL_PLATFORM": "egl"}
WEFT = dict(HOST, GALLIUM_DRIVER="virpipe")

PROGRAMS = {
    "mujoco": '''
import mujoco
m = mujoco.MjModel.from_xml_string("""<mujoco><worldbody><light pos="0 0 3"/>
<geom type="plane" size="2 2 .1" rgba=".8 .9 .8 1"/>
<body pos="0 0 1"><freejoint/><geom type="box" size=".2 .3 .1" rgba="1 0 0 1"/></body>
<geom type="sphere" pos=".6 0 .3" size=".3" rgba="0 .2 1 1"/></worldbody></mujoco>""")
d = mujoco.MjData(m)
with mujoco.Renderer(m, 240, 320) as r:
    for _ in range(100):
        mujoco.mj_step(m, d)
    r.update_scene(d)
    say(r.render().tobytes())
''',
    "moderngl": '''
import moderngl
import numpy as np
c = moderngl.create_standalone_context(backend="egl")
p = c.program(vertex_shader="#version 330\\nin vec2 v; in vec3 k; out vec3 c;"
                            "void main() { gl_Position = vec4(v, 0, 1); c = k; }",
              fragment_shader="#version 330\\nin vec3 c; out vec4 f;"
                              "void main() { f = vec4(c, 1); }")
b = c.buffer(np.array([-.8, -.8, 1, 0, 0, .8, -.8, 0, 1, 0, 0, .8, 0, 0, 1], "f4").tobytes())
f = c.simple_framebuffer((256, 256))
f.use()
f.clear(0, 0, 0, 1)
c.vertex_array(p, [(b, "2f 3f", "v", "k")]).render()
say(f.read())
''',
    "vtk": '''
import vtk
from vtk.util.numpy_support import vtk_to_numpy
cone = vtk.vtkConeSource()
cone.SetResolution(40)
m = vtk.vtkPolyDataMapper()
m.SetInputConnection(cone.GetOutputPort())
a = vtk.vtkActor()
a.SetMapper(m)
a.GetProperty().SetColor(1, .5, 0)
r = vtk.vtkRenderer()
r.AddActor(a)
r.SetBackground(.1, .2, .4)
w = vtk.vtkEGLRenderWindow()
w.SetOffScreenRendering(1)
w.SetSize(256, 256)
w.AddRenderer(r)
w.Render()
f = vtk.vtkWindowToImageFilter()
f.SetInput(w)
f.ReadFrontBufferOff()
f.Update()
say(vtk_to_numpy(f.GetOutput().GetPointData().GetScalars()).tobytes())
''',
    "PyOpenGL": '''
from OpenGL import EGL, GL
d = EGL.eglGetDisplay(EGL.EGL_DEFAULT_DISPLAY)
EGL.eglInitialize(d, None, None)
EGL.eglBindAPI(EGL.EGL_OPENGL_API)
n, configs = EGL.EGLint(), (EGL.EGLConfig * 1)()
EGL.eglChooseConfig(d, [EGL.EGL_SURFACE_TYPE, EGL.EGL_PBUFFER_BIT, EGL.EGL_RENDERABLE_TYPE,
                        EGL.EGL_OPENGL_BIT, EGL.EGL_NONE], configs, 1, n)
s = EGL.eglCreatePbufferSurface(d, configs[0], [EGL.EGL_WIDTH, 128, EGL.EGL_HEIGHT, 128,
                                                EGL.EGL_NONE])
EGL.eglMakeCurrent(d, s, s, EGL.eglCreateContext(d, configs[0], EGL.EGL_NO_CONTEXT, None))
GL.glClearColor(.2, .3, .4, 1)
GL.glClear(GL.GL_COLOR_BUFFER_BIT)
GL.glBegin(GL.GL_TRIANGLES)
for x, y, k in ((-1, -1, (1, 0, 0)), (1, -1, (0, 1, 0)), (0, 1, (0, 0, 1))):
    GL.glColor3f(*k)
    GL.glVertex2f(x, y)
GL.glEnd()
say(GL.glReadPixels(0, 0, 128, 128, GL.GL_RGBA, GL.GL_UNSIGNED_BYTE))
''',
}
SAY = """
import hashlib
def say(picture):
    print(hashlib.sha256(picture).hexdigest(), len(set(picture)))
"""


def python_with(directory):
    python = os.path.join(directory, "bin", "python")
    if not os.path.exists(python):
        venv.create(directory, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


def draw(python, text, env):
    """Returns what a program says of its picture, or its last words."""
    r = subprocess.run([python, "-c", SAY + text], env=dict(os.environ, **env), text=True,
                       capture_output=True, check=False, timeout=120)
    return r.stdout.strip() if r.returncode == 0 else r.stderr[-500:]


def start(build, directory):
    """weftd, and who draws by it where Mesa looks."""
    conf = os.path.join(directory, "weftd.conf")
    with open(conf, "w", encoding="ascii") as f:
        f.write("[tenant a]\nmemory.max = 1G\n")
    run = os.path.join(directory, "run")
    weftd = subprocess.Popen([f"{build}/hostd/weftd", "--config", conf, "--run-dir", run,
                              "--device", "soft"], stderr=subprocess.DEVNULL)
    guest = subprocess.Popen([f"{build}/guestlib/weft-guest-gl"],
                             env=dict(os.environ, WEFT_HOST=f"unix:{run}/a.sock"))
    while not (os.path.exists(SOCKET) and os.path.exists(f"{run}/a.sock")):
        time.sleep(0.1)
    return weftd, guest


def main(build, directory):
    if os.path.exists(SOCKET):
        print(f"{SOCKET} is there already")
        return 77
    python = python_with(directory)
    both = start(os.path.abspath(build), os.path.abspath(directory))
    failed = 0
    try:
        for name, text in PROGRAMS.items():
            here, there = draw(python, text, HOST), draw(python, text, WEFT)
            good = here == there and int(here.split()[-1]) > 10
            failed += not good
            print(f"{name:10} {'the same' if good else f'{here} and {there}'}", flush=True)
    finally:
        for p in both:
            p.terminate()
            p.wait()
        os.unlink(SOCKET)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
