//! TorchScript modules with all their tensors under their own names.

use crate::Result;
use crate::ffi::{Failure, check, pointers};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use tch::{Device, TchError, Tensor};
use torch_sys::C_tensor;

/// The module as C++ knows it.
#[repr(C)]
struct CModule {
    _opaque: [u8; 0],
}

type Visit = unsafe extern "C" fn(*mut c_void, *const c_char, bool, *mut C_tensor);

unsafe extern "C" {
    fn curricle_script_load(path: *const c_char, cuda: c_int, index: c_int, module: *mut *mut CModule) -> Failure;
    fn curricle_script_free(module: *mut CModule);
    fn curricle_script_tensors(module: *const CModule, data: *mut c_void, visit: Visit) -> Failure;
    fn curricle_script_train(module: *mut CModule, train: bool, frozen_norm: bool) -> Failure;
    fn curricle_script_forward(module: *mut CModule, input: *const C_tensor, output: *mut *mut C_tensor) -> Failure;
    fn curricle_script_save_around(
        module: *mut CModule,
        source: *const c_char,
        names: *const *const c_char,
        tensors: *const *const C_tensor,
        count: usize,
        path: *const c_char,
    ) -> Failure;
}

/// A TorchScript module.
#[derive(Debug)]
pub struct Script {
    module: *mut CModule,
}

// SAFETY: the module belongs to this value alone, and its tensors may be used from any thread, one at a time.
unsafe impl Send for Script {}

/// A tensor of a module.
#[derive(Debug)]
pub struct ScriptTensor {
    /// Its name in Python, e.g. `layer1.0.bn1.running_mean`.
    pub name: String,
    /// Whether it is a buffer rather than a parameter.
    pub buffer: bool,
    /// The tensor, shared with the module.
    pub tensor: Tensor,
}

impl Script {
    /// Loads a module and moves it to a device, including constants of its code.
    pub fn load(path: &Path, device: Device) -> Result<Self> {
        let path = c_path(path)?;
        let (cuda, index) = match device {
            Device::Cuda(index) => (1, c_int::try_from(index).unwrap_or(c_int::MAX)),
            _ => (0, 0),
        };
        let mut module = std::ptr::null_mut();
        // SAFETY: the path is a C string that outlives the call; on success the call returns a new module.
        check(unsafe { curricle_script_load(path.as_ptr(), cuda, index, &raw mut module) })?;
        Ok(Self { module })
    }

    /// All parameters and buffers. Tied parameters are one tensor under several names.
    pub fn tensors(&self) -> Result<Vec<ScriptTensor>> {
        let mut found: Vec<ScriptTensor> = Vec::new();
        // SAFETY: the module is valid, and `visit` gets the list that it expects.
        check(unsafe { curricle_script_tensors(self.module, (&raw mut found).cast(), visit) })?;
        Ok(found)
    }

    /// Switches between training and evaluation mode. With `frozen_norm`, batch norm stays in evaluation mode.
    pub fn train(&self, train: bool, frozen_norm: bool) -> Result<()> {
        // SAFETY: the module is valid, and no other thread uses it, because `Script` is not `Sync`.
        check(unsafe { curricle_script_train(self.module, train, frozen_norm) })
    }

    /// Calls `forward` with one tensor; the result must be one tensor.
    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let mut output = std::ptr::null_mut();
        // SAFETY: module and input are valid for the call, which returns a new tensor on success.
        check(unsafe { curricle_script_forward(self.module, input.as_ptr(), &raw mut output) })?;
        // SAFETY: as above; it has no other owner.
        Ok(unsafe { Tensor::from_ptr(output) })
    }

    /// Saves a module whose `forward` is the TorchScript `source`, in which `self.backbone` is this module in
    /// evaluation mode and the given tensors are attributes. Leaves this module in evaluation mode.
    pub fn save_around(&self, source: &str, tensors: &[(&str, &Tensor)], path: &Path) -> Result<()> {
        let (path, source) = (c_path(path)?, c_string(source)?);
        let names = tensors.iter().map(|(name, _)| c_string(name)).collect::<Result<Vec<_>>>()?;
        let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let all = pointers(&tensors.iter().map(|(_, tensor)| *tensor).collect::<Vec<_>>());
        // SAFETY: all strings and tensors outlive the call, and the lists have the given length.
        check(unsafe {
            curricle_script_save_around(
                self.module,
                source.as_ptr(),
                names.as_ptr(),
                all.as_ptr(),
                tensors.len(),
                path.as_ptr(),
            )
        })
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // SAFETY: `load` made the module, and nothing uses it after this.
        unsafe { curricle_script_free(self.module) };
    }
}

unsafe extern "C" fn visit(data: *mut c_void, name: *const c_char, buffer: bool, tensor: *mut C_tensor) {
    // SAFETY: `tensors` passes its list; the shim passes a C string for the call and a tensor to keep.
    unsafe {
        let found = &mut *data.cast::<Vec<ScriptTensor>>();
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        found.push(ScriptTensor { name, buffer, tensor: Tensor::from_ptr(tensor) });
    }
}

fn c_path(path: &Path) -> Result<CString> {
    c_string(&path.to_string_lossy())
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| TchError::Torch(format!("`{}` contains a null byte", text.escape_debug())))
}
