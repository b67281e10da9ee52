package logbook

import (
	"bytes"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead"
)

// A Row is an entry in its stored form, for a copy of the book on another node.
type Row struct {
	ID   uint64
	Data []byte
}

// takenBucket holds, under takenKey, the ID in the other book of the last entry that was taken from it.
var takenBucket, takenKey = []byte("taken"), []byte("last")

// CopyFrom returns the ID after which a copy of the book continues that ends with the ID after: after itself, or a
// later one if more than most entries follow.
func (b *Book) CopyFrom(after uint64, most int) (from uint64, err error) {
	b.Flush()
	from = after
	err = b.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(rowsBucket).Cursor()
		k, _ := c.Last()
		for ; k != nil && most > 0 && idOf(k) > after; k, _ = c.Prev() {
			most--
		}
		from = max(after, idOf(k))
		return nil
	})
	return from, err
}

// After returns entries with larger IDs than after, the oldest first: all of them, or as many as have the given
// number of bytes, and one more.
func (b *Book) After(after uint64, size int) (rows []Row, err error) {
	b.Flush()
	err = b.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(rowsBucket).Cursor()
		for k, v := c.Seek(keyOf(max(after+1, b.cutoff()))); k != nil && size > 0; k, v = c.Next() {
			rows = append(rows, Row{idOf(k), slices.Clone(v)})
			size -= len(v)
		}
		return nil
	})
	return rows, err
}

// Last returns the ID of the last entry; 0 if there is none.
func (b *Book) Last() uint64 {
	b.Flush()
	b.writing.Lock()
	defer b.writing.Unlock()
	return b.last
}

// Taken returns the ID, in the other book, of the last entry that [Book.Take] has taken; 0 for none.
func (b *Book) Taken() (id uint64, err error) {
	err = b.view(func(tx *bbolt.Tx) error {
		if taken := tx.Bucket(takenBucket); taken != nil {
			id = idOf(taken.Get(takenKey))
		}
		return nil
	})
	return id, err
}

// Take adds entries of another node's book, which have ascending IDs, unless the book has them. visit is called with
// each new one; the entry is valid until visit returns. An error wraps [bulkhead.ErrMalformed] if an entry cannot be
// read. Nothing is taken then.
func (b *Book) Take(rows []Row, visit func(*Entry)) error {
	if len(rows) == 0 {
		return nil
	}
	for i, last := 0, uint64(0); i < len(rows); i++ {
		e, err := decode(rows[i].ID, rows[i].Data)
		if err != nil || rows[i].ID <= last || rows[i].ID > maxID {
			return fmt.Errorf("logbook: %w: entry %d of another node: %v", bulkhead.ErrMalformed, rows[i].ID, err)
		}
		if last = rows[i].ID; e.Subject != "" && !b.o.Subjects {
			e.Subject = ""
			rows[i].Data = e.encode()
		}
	}
	var fresh []Row
	b.writing.Lock()
	err := b.update(func(tx *bbolt.Tx) error {
		mark, err := tx.CreateBucketIfNotExists(takenBucket)
		if err != nil {
			return err
		}
		fresh = nil
		for _, r := range rows {
			if r.ID >= b.cutoff() && !bytes.Equal(tx.Bucket(rowsBucket).Get(keyOf(r.ID)), r.Data) {
				fresh = append(fresh, r)
			}
		}
		if err := mark.Put(takenKey, keyOf(rows[len(rows)-1].ID)); err != nil {
			return err
		}
		sealed := lastSealed(tx) // blocks of the book cannot take entries any more
		return b.put(tx, fresh, func(r *Row, all *bbolt.Bucket) uint64 {
			if r.ID > sealed && all.Get(keyOf(r.ID)) == nil {
				return r.ID
			}
			return max(b.last+1, r.ID)
		})
	})
	b.writing.Unlock()
	if err != nil {
		return err
	}
	for _, r := range fresh {
		if e, err := decode(r.ID, r.Data); err == nil {
			visit(&e)
		}
	}
	return nil
}

// maxID is the largest ID of an entry of another book: in the year 2255.
const maxID = 1 << 53
