package node

import (
	"golang.org/x/sys/unix"

	"github.com/bulkhead-mail/bulkhead/client"
)

// diskOf returns the room in the file system of a folder, nil if it cannot be asked.
func diskOf(dir string) *client.Disk {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return nil
	}
	block := uint64(s.Bsize)
	return &client.Disk{Free: s.Bavail * block, Total: s.Blocks * block}
}
