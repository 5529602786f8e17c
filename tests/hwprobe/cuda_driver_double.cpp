// A CUDA driver that only pretends to load what cuDNN has compiled: enough for its plans to be built without a GPU.
// Every function that cuDNN looks up is here; those with a result give an address.
#define DOES(name) \
  extern "C" int name() { return 0; }
#define GIVES(name)                 \
  extern "C" int name(void** out) { \
    static int something;           \
    *out = &something;              \
    return 0;                       \
  }
GIVES(cuLibraryLoadData)
GIVES(cuLibraryLoadFromFile)
GIVES(cuLibraryGetKernel)
GIVES(cuKernelGetFunction)
GIVES(cuCtxGetCurrent)
DOES(cuCtxGetLimit)
DOES(cuCtxPopCurrent)
DOES(cuCtxPushCurrent)
DOES(cuDeviceGet)
DOES(cuDeviceGetCount)
DOES(cuDriverGetVersion)
DOES(cuFuncSetAttribute)
DOES(cuGetErrorName)
DOES(cuGetErrorString)
DOES(cuKernelGetAttribute)
DOES(cuKernelSetAttribute)
DOES(cuLaunchCooperativeKernel)
DOES(cuLaunchKernel)
DOES(cuLaunchKernelEx)
DOES(cuLibraryUnload)
DOES(cuLinkAddData)
DOES(cuLinkComplete)
DOES(cuLinkCreate)
DOES(cuLinkDestroy)
DOES(cuOccupancyMaxPotentialClusterSize)
DOES(cuStreamGetCtx)
