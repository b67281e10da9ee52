package manage

import (
	"golang.org/x/sys/unix"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// diskOf returns the free and total space of a folder's file system, nil if unknown.
func diskOf(dir string) *admin.Disk {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return nil
	}
	block := uint64(s.Bsize)
	return &admin.Disk{Free: s.Bavail * block, Total: s.Blocks * block}
}
