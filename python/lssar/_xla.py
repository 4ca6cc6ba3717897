"""What a handler of XLA's foreign function interface gets, for ctypes: of xla/ffi/api/c_api.h.

Used by jax. The interface is a C ABI with a version of its own, which XLA asks a handler for when it
is registered; XLA promises to serve a version for 12 months at least. So nothing is compiled against
jaxlib. A test compares the structs with the header that jaxlib brings.
"""

import ctypes

API_VERSION = (0, 3)  # that the structs here mirror
EXTENSION_METADATA = 1
ATTRIBUTE_SCALAR = 3
ATTRIBUTE_STRING = 4
STAGE_EXECUTE = 3
ERROR_INTERNAL = 13

_SIZE = ("struct_size", ctypes.c_size_t)
_EXTENSION = ("extension_start", ctypes.c_void_p)


class ExtensionBase(ctypes.Structure):
    _fields_ = [_SIZE, ("type", ctypes.c_int), ("next", ctypes.c_void_p)]


class ApiVersion(ctypes.Structure):
    _fields_ = [
        _SIZE,
        _EXTENSION,
        ("major_version", ctypes.c_int),
        ("minor_version", ctypes.c_int),
    ]


class Metadata(ctypes.Structure):
    _fields_ = [_SIZE, ("api_version", ApiVersion), ("traits", ctypes.c_uint32)]


class MetadataExtension(ctypes.Structure):
    _fields_ = [("extension_base", ExtensionBase), ("metadata", ctypes.POINTER(Metadata))]


class Buffer(ctypes.Structure):
    _fields_ = [
        _SIZE,
        _EXTENSION,
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    ]


class ByteSpan(ctypes.Structure):
    _fields_ = [("ptr", ctypes.POINTER(ctypes.c_char)), ("len", ctypes.c_size_t)]


class Scalar(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("value", ctypes.c_void_p)]


_BUFFERS = ctypes.POINTER(ctypes.POINTER(Buffer))


class Args(ctypes.Structure):
    _fields_ = [
        _SIZE,
        _EXTENSION,
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("args", _BUFFERS),
    ]


class Rets(ctypes.Structure):
    _fields_ = [
        _SIZE,
        _EXTENSION,
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("rets", _BUFFERS),
    ]


class Attrs(ctypes.Structure):
    _fields_ = [
        _SIZE,
        _EXTENSION,
        ("size", ctypes.c_int64),
        ("types", ctypes.POINTER(ctypes.c_int)),
        ("names", ctypes.POINTER(ctypes.POINTER(ByteSpan))),
        ("attrs", ctypes.POINTER(ctypes.c_void_p)),  # each of the type that `types` says
    ]


class CallFrame(ctypes.Structure):
    _fields_ = [
        _SIZE,
        _EXTENSION,
        ("api", ctypes.c_void_p),
        ("ctx", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("args", Args),
        ("rets", Rets),
        ("attrs", Attrs),
    ]


class ErrorCreateArgs(ctypes.Structure):
    _fields_ = [_SIZE, _EXTENSION, ("message", ctypes.c_char_p), ("errc", ctypes.c_int)]


class StreamGetArgs(ctypes.Structure):
    _fields_ = [_SIZE, _EXTENSION, ("ctx", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


class DeviceOrdinalGetArgs(ctypes.Structure):
    _fields_ = [_SIZE, _EXTENSION, ("ctx", ctypes.c_void_p), ("device_ordinal", ctypes.c_int32)]


class DeviceMemoryAllocateArgs(ctypes.Structure):
    _fields_ = [
        _SIZE,
        _EXTENSION,
        ("ctx", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("alignment", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
    ]


class DeviceMemoryFreeArgs(ctypes.Structure):
    _fields_ = [
        _SIZE,
        _EXTENSION,
        ("ctx", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
    ]


class ErrorGetMessageArgs(ctypes.Structure):
    _fields_ = [_SIZE, _EXTENSION, ("error", ctypes.c_void_p), ("message", ctypes.c_char_p)]


class ErrorDestroyArgs(ctypes.Structure):
    _fields_ = [_SIZE, _EXTENSION, ("error", ctypes.c_void_p)]


class Api(ctypes.Structure):
    _fields_ = [_SIZE, _EXTENSION, ("api_version", ApiVersion), ("internal_api", ctypes.c_void_p)] + [
        (f"XLA_FFI_{name}", ctypes.c_void_p)
        for name in (
            "Error_Create",
            "Error_GetMessage",
            "Error_Destroy",
            "Handler_Register",
            "Stream_Get",
            "Type_Register",
            "ExecutionContext_Get",
            "State_Set",
            "State_Get",
            "DeviceMemory_Allocate",
            "DeviceMemory_Free",
            "ThreadPool_Schedule",
            "ThreadPool_NumThreads",
            "Future_Create",
            "Future_SetAvailable",
            "Future_SetError",
            "RunId_Get",
            "DeviceOrdinal_Get",
        )
    ]


# The structs by their C names: for the test.
STRUCTS = {
    "XLA_FFI_Extension_Base": ExtensionBase,
    "XLA_FFI_Api_Version": ApiVersion,
    "XLA_FFI_Metadata": Metadata,
    "XLA_FFI_Metadata_Extension": MetadataExtension,
    "XLA_FFI_Buffer": Buffer,
    "XLA_FFI_ByteSpan": ByteSpan,
    "XLA_FFI_Scalar": Scalar,
    "XLA_FFI_Args": Args,
    "XLA_FFI_Rets": Rets,
    "XLA_FFI_Attrs": Attrs,
    "XLA_FFI_CallFrame": CallFrame,
    "XLA_FFI_Error_Create_Args": ErrorCreateArgs,
    "XLA_FFI_Error_GetMessage_Args": ErrorGetMessageArgs,
    "XLA_FFI_Error_Destroy_Args": ErrorDestroyArgs,
    "XLA_FFI_Stream_Get_Args": StreamGetArgs,
    "XLA_FFI_DeviceOrdinal_Get_Args": DeviceOrdinalGetArgs,
    "XLA_FFI_DeviceMemory_Allocate_Args": DeviceMemoryAllocateArgs,
    "XLA_FFI_DeviceMemory_Free_Args": DeviceMemoryFreeArgs,
    "XLA_FFI_Api": Api,
}

Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)  # XLA_FFI_Error* (XLA_FFI_CallFrame*)


class Frame:
    """A call of a handler. Methods raise RuntimeError where XLA reports an error."""

    def __init__(self, address):
        self._frame = CallFrame.from_address(address)

    def answer_metadata(self):
        """Whether it was XLA asking for the version, which then is answered."""
        start = self._frame.extension_start
        if not start or ExtensionBase.from_address(start).type != EXTENSION_METADATA:
            return False
        version = MetadataExtension.from_address(start).metadata.contents.api_version
        version.major_version, version.minor_version = API_VERSION
        return True

    @property
    def is_execution(self):
        return self._frame.stage == STAGE_EXECUTE

    def arguments(self):
        """(address, dtype, shape) of each."""
        return _buffers(self._frame.args.args, self._frame.args.size)

    def results(self):
        return _buffers(self._frame.rets.rets, self._frame.rets.size)

    def scalar(self, name, kind, default=None):
        """The attribute, which XLA holds as the ctypes type `kind`. Where the call has none of this
        name: the default, or a KeyError without one."""
        at = self._attribute(name, ATTRIBUTE_SCALAR)
        if at is None and default is not None:
            return default
        if at is None:
            raise KeyError(name)
        return kind.from_address(ctypes.cast(at, ctypes.POINTER(Scalar)).contents.value).value

    def string(self, name):
        """The attribute, or "" if the call has none of this name."""
        at = self._attribute(name, ATTRIBUTE_STRING)
        if at is None:
            return ""
        span = ByteSpan.from_address(at)
        return span.ptr[: span.len].decode()

    def _attribute(self, name, kind):
        attrs = self._frame.attrs
        for i in range(attrs.size):
            span = attrs.names[i].contents
            if span.ptr[: span.len] == name:
                if attrs.types[i] != kind:
                    raise TypeError(f"attribute {name.decode()}: of XLA's type {attrs.types[i]}, not {kind}")
                return attrs.attrs[i]
        return None

    def error(self, message):
        """An error to return."""
        text = message.encode()
        arguments = _sized(ErrorCreateArgs, message=text, errc=ERROR_INTERNAL)
        return self._function("Error_Create")(ctypes.addressof(arguments))

    def stream(self):
        return self._get("Stream_Get", StreamGetArgs).stream or 0

    def device_ordinal(self):
        return self._get("DeviceOrdinal_Get", DeviceOrdinalGetArgs).device_ordinal

    def allocate(self, size):
        """Device memory; work enqueued later may get it once it is freed."""
        return self._get("DeviceMemory_Allocate", DeviceMemoryAllocateArgs, size=size, alignment=256).data

    def free(self, address, size):
        self._get("DeviceMemory_Free", DeviceMemoryFreeArgs, size=size, data=address)

    def _function(self, name):
        return Handler(getattr(Api.from_address(self._frame.api), f"XLA_FFI_{name}"))

    def _get(self, name, arguments_class, **fields):
        arguments = _sized(arguments_class, ctx=self._frame.ctx, **fields)
        error = self._function(name)(ctypes.addressof(arguments))
        if error:
            text = _sized(ErrorGetMessageArgs, error=error)
            self._function("Error_GetMessage")(ctypes.addressof(text))
            message = text.message.decode(errors="replace")
            self._function("Error_Destroy")(
                ctypes.addressof(_sized(ErrorDestroyArgs, error=error))
            )
            raise RuntimeError(f"XLA: {name}: {message}")
        return arguments


def _sized(struct_class, **fields):
    return struct_class(struct_size=ctypes.sizeof(struct_class), **fields)


def _buffers(pointers, count):
    buffers = (pointers[i].contents for i in range(count))
    return [(b.data or 0, b.dtype, tuple(b.dims[: b.rank])) for b in buffers]
