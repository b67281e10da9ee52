package store

import (
	"errors"
	"fmt"
)

var (
	// ErrFailed means that a write or fsync of the journal failed. No entry is accepted until
	// [Store.Recover] succeeds. The error that wraps it also wraps the cause.
	ErrFailed = errors.New("journal failed and takes no entries until it has recovered")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("store: closed")
	// ErrInUse means that another process, which the error names, has the directory open.
	ErrInUse = errors.New("in use")
	// ErrFormat means that a file was written by a newer release or by another program.
	ErrFormat = errors.New("unknown format")
	// ErrNewer is ErrFormat of a file that a newer release wrote. Nothing is changed.
	ErrNewer = fmt.Errorf("%w: written by a newer version", ErrFormat)
	// ErrPermission means that the directory belongs to another user or is accessible to others.
	ErrPermission = errors.New("unsafe permissions")
)

// formatOf returns the error of a file with another format than this program reads.
func formatOf(newer bool) error {
	if newer {
		return ErrNewer
	}
	return ErrFormat
}

// A DamageError means that a file does not contain what was written to it. The store never
// continues with such a file and never modifies it.
type DamageError struct {
	File   string // path of the file
	Offset int64  // in bytes from its start, where the damage was noticed
	What   string // description of the damage
	Advice string // what the operator can do
}

// Error returns all four fields in one line.
func (e *DamageError) Error() string {
	return fmt.Sprintf("store: %s is damaged at offset %d: %s; %s", e.File, e.Offset, e.What, e.Advice)
}

const (
	adviceRestore = "check the disk, run \"bulkhead doctor\" on the data folder, " +
		"and mend it with --repair or restore the last backup"
	adviceAnew      = "move the folder of the store away, and restore the last backup"
	adviceWatermark = "after checking the disk, remove this file to trust the journal's own end"
)

func damaged(file string, offset int64, what string, args ...any) error {
	return &DamageError{file, offset, fmt.Sprintf(what, args...), adviceRestore}
}

// unusable returns the error for a file that is damaged, missing or out of date as a whole.
func unusable(file, what string, args ...any) error { return damaged(file, 0, what, args...) }
