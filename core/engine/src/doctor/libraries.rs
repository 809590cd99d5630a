//! The cuDNN and cuBLAS files that this process has loaded.
//!
//! libtorch brings its own, but cuDNN opens its parts by name, so that those of another cuDNN in `LD_LIBRARY_PATH` win.
//! Parts of different versions fail at the first convolution.

use serde::Serialize;
use std::path::{Path, PathBuf};

/// A loaded library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CudaLibrary {
    /// Its file.
    pub file: PathBuf,
    /// The file of this name that belongs to libtorch, if it is another one.
    pub instead_of: Option<PathBuf>,
}

/// The libraries among these files, for a libtorch in this folder.
pub(super) fn cuda_libraries(loaded: &[PathBuf], libtorch: Option<&Path>) -> Vec<CudaLibrary> {
    let own = libtorch.map(own_folders).unwrap_or_default();
    let libraries = loaded.iter().filter(|file| {
        let name = file_name(file);
        (name.starts_with("libcudnn") || name.starts_with("libcublas")) && name.contains(".so")
    });
    libraries
        .map(|file| {
            let meant = own.iter().map(|folder| folder.join(file_name(file))).find(|own| own.exists());
            CudaLibrary { file: file.clone(), instead_of: meant.filter(|own| !same_file(own, file)) }
        })
        .collect()
}

/// Where libtorch's own libraries are: beside it, and in pip's packages `nvidia-…` beside the package `torch`.
fn own_folders(libtorch: &Path) -> Vec<PathBuf> {
    let mut folders = vec![libtorch.to_path_buf()];
    let packages = libtorch.parent().and_then(Path::parent).map(|site| site.join("nvidia"));
    let packages = packages.and_then(|nvidia| fs_err::read_dir(nvidia).ok());
    folders.extend(packages.into_iter().flatten().flatten().map(|package| package.path().join("lib")));
    folders
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, "").unwrap();
        path
    }

    #[test]
    fn a_library_from_elsewhere_is_told_from_libtorchs_own() {
        let site = tempfile::tempdir().unwrap();
        let site = site.path();
        let own = file(site, "nvidia/cudnn/lib/libcudnn.so.9");
        let replaced = file(site, "nvidia/cudnn/lib/libcudnn_graph.so.9");
        let foreign = file(site, "elsewhere/libcudnn_graph.so.9");
        let unknown = file(site, "elsewhere/libcublas.so.13");
        let torch = file(site, "torch/lib/libtorch_cpu.so");
        let loaded = [torch.clone(), own.clone(), foreign.clone(), unknown.clone()];
        let found = cuda_libraries(&loaded, torch.parent());
        let library = |file, instead_of| CudaLibrary { file, instead_of };
        assert_eq!(found, [library(own, None), library(foreign, Some(replaced)), library(unknown, None)]);
    }

    #[test]
    fn without_a_libtorch_nothing_is_foreign() {
        let found = cuda_libraries(&["/usr/lib/libcudnn.so.9".into(), "/usr/lib/libc.so.6".into()], None);
        assert_eq!(found, [CudaLibrary { file: "/usr/lib/libcudnn.so.9".into(), instead_of: None }]);
    }
}
