package wholefile

import "os"

// A Stamp identifies a version of a file: it changes when the file is replaced or written. The zero Stamp stands for
// a file that cannot be looked at.
type Stamp struct{ info os.FileInfo }

// StampOf returns the stamp of the present file at path.
func StampOf(path string) Stamp {
	info, _ := os.Stat(path) // nil with an error
	return Stamp{info}
}

// Same reports whether a and b are of the same version.
func (a Stamp) Same(b Stamp) bool {
	if a.info == nil || b.info == nil {
		return a.info == nil && b.info == nil
	}
	return a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime()) && os.SameFile(a.info, b.info)
}
