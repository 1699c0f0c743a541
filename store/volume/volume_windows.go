package volume

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

// SpaceOf is the space of the volume that holds dir.
func SpaceOf(dir string) (Space, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return Space{}, err
	}
	var free, total uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, &total, nil); err != nil {
		return Space{}, err
	}
	return Space{Total: int64(total), Free: int64(free)}, nil
}

// Taken is the length of a file in bytes: Windows does not report what a file takes on its volume together with its
// other attributes.
func Taken(file fs.FileInfo) int64 { return file.Size() }

// SyncDir does nothing: NTFS keeps a journal of names, and Windows does not flush directories.
func SyncDir(string) error { return nil }
