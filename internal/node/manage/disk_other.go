//go:build !linux

package manage

import "github.com/bulkhead-mail/bulkhead/client/admin"

// diskOf returns the free and total space of a folder's file system, nil if unknown.
func diskOf(string) *admin.Disk { return nil }
