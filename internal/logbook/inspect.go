package logbook

import (
	"errors"

	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead/internal/boltfile"
)

// Inspect reads a whole file and returns an error if it is damaged. It changes nothing. It does not
// read a file that a node has open, because the node itself notices damage.
func Inspect(path string) error { return boltfile.Inspect(path, inspect) }

// inspect reads all entries and blocks.
func inspect(tx *bbolt.Tx) error {
	rows, blocks := tx.Bucket(rowsBucket), tx.Bucket(blocksBucket)
	if rows == nil || blocks == nil {
		return boltfile.ErrDamaged
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
