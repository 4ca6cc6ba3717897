"""Attention of arrays of any library that speaks DLPack, through dlpack_attention.c and ctypes.

    attend = Attention("build/release/lib/libexample_dlpack.so", q, v, causal=True)
    o = numpy.from_dlpack(attend(q, k, v))      or torch.from_dlpack, jax.numpy.from_dlpack, ...

Nothing is copied. This is for languages and libraries that lssar has no package for; PyTorch and JAX
have one.
"""

import ctypes

_NAME = b"dltensor"  # of a capsule that nobody has taken yet


def _python(name, result, *arguments):
    """A function of Python's C API."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_pointer_of = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
# A destructor must not make new references, which py_object does.
_pointer_of_dying = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_new_capsule = _python(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)


class _Managed(ctypes.Structure):
    """The parts of DLManagedTensor that are read here."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rest", ctypes.c_byte * 32),  # ndim, dtype, shape, strides, byte_offset
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


def _delete(pointer):
    _Managed.from_address(pointer).deleter(pointer)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _delete_untaken(capsule):
    if _is_valid(capsule, _NAME):  # who takes a tensor renames its capsule
        _delete(_pointer_of_dying(capsule, _NAME))


class Result:
    """A tensor to be taken once, by a from_dlpack."""

    def __init__(self, pointer):
        self._pointer = pointer

    def __dlpack_device__(self):
        return tuple(_Managed.from_address(self._pointer).device)

    def __dlpack__(self, **_):  # it is complete on every stream, and of the oldest version
        if self._pointer is None:
            raise ValueError("this result was taken before: call attention again, or keep the array that was made of it")
        capsule = _new_capsule(self._pointer, _NAME, ctypes.cast(_delete_untaken, ctypes.c_void_p))
        self._pointer = None
        return capsule

    def __del__(self):
        if self._pointer is not None:
            _delete(self._pointer)


class Attention:
    """For arrays like q and v. Raises ValueError with the reason."""

    def __init__(self, library, q, v, causal=False, p=15):
        self._handle = None
        self._c = ctypes.CDLL(library)
        pointers = [ctypes.c_void_p] * 4
        for name, result, arguments in (
            ("new", ctypes.c_void_p, [*pointers[:2], ctypes.c_int, ctypes.c_int]),
            ("forward", ctypes.c_void_p, pointers),
            ("free", None, pointers[:1]),
            ("error", ctypes.c_char_p, []),
        ):
            function = getattr(self._c, f"dl_attention_{name}")
            function.restype, function.argtypes = result, arguments
        self._handle = self._call(self._c.dl_attention_new, (q, v), causal, p)

    def __call__(self, q, k, v):
        forward = self._c.dl_attention_forward
        return Result(self._call(lambda *x: forward(self._handle, *x), (q, k, v)))

    def _call(self, function, arrays, *more):
        capsules = [x.__dlpack__() for x in arrays]  # own the tensors until the call has returned
        pointer = function(*(_pointer_of(x, _NAME) for x in capsules), *more)
        if not pointer:
            raise ValueError(self._c.dl_attention_error().decode())
        return pointer

    def __del__(self):
        if self._handle is not None:
            self._c.dl_attention_free(self._handle)
