package logbook

import (
	"errors"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Inspect reads a whole file and returns an error if it is damaged. It changes nothing. It does not
// read a file that a node has open, because the node itself notices damage.
func Inspect(path string) error { return inspectFile(path, inspect) }

// inspectFile reads a file with fn, unless a node has it open.
func inspectFile(path string, fn func(*bbolt.Tx) error) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	err := guarded(func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 100 * time.Millisecond})
		if err != nil {
			return damageOf(err)
		}
		defer db.Close()
		return db.View(fn)
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil
	}
	return err
}

// inspect reads all entries and blocks.
func inspect(tx *bbolt.Tx) error {
	rows, blocks := tx.Bucket(rowsBucket), tx.Bucket(blocksBucket)
	if rows == nil || blocks == nil {
		return errDamagedFile
	}
	return errors.Join(
		rows.ForEach(func(k, v []byte) error {
			_, err := decode(idOf(k), v)
			return err
		}),
		blocks.ForEach(func(k, v []byte) error {
			_, err := readBlock(k, v)
			return err
		}))
}
