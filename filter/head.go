package filter

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// MaxMeta is the largest number of bytes of a filter's metadata, such as [TwoPart.Meta].
const MaxMeta = 1 << 16

// A head is what every set of strings stores besides its bits.
type head struct {
	secret Secret
	public bool
	meta   []byte
}

// Meta returns the caller's metadata that is stored with the filter, such as the origin and date of
// the list; nil if there is none. The caller must not modify it.
func (h *head) Meta() []byte { return h.meta }

// SetMeta stores a copy of b, of at most [MaxMeta] bytes, with the filter.
func (h *head) SetMeta(b []byte) error {
	if len(b) > MaxMeta {
		return fmt.Errorf("filter: %d bytes of meta data, want at most %d", len(b), MaxMeta)
	}
	h.meta = append([]byte(nil), b...)
	return nil
}

// Publish makes Encode write the key into the file, so that every holder of the file can query the
// filter, and can also craft false positives. Otherwise the file names the key by its fingerprint,
// and the decoder must be given the key.
func (h *head) Publish() { h.public = true }

// write writes the key, the length of the metadata (4 bytes) and the metadata.
func (h *head) write(p *codec.Writer) {
	codec.WriteSecret(p, h.secret, h.public)
	p.Uint32(uint32(len(h.meta)))
	p.Bytes(h.meta)
}

// read reads the output of write. A key that the file only names must be among the known ones.
func (h *head) read(p *codec.Reader, known []Secret) {
	h.secret, h.public = codec.ReadSecret(p, known)
	if n := p.Uint32(); n > MaxMeta {
		p.Fail("%d bytes of meta data, want at most %d", n, MaxMeta)
	} else if n > 0 {
		h.meta = p.Bytes(uint64(n))
	}
}
