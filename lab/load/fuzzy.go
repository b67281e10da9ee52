package load

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/fuzzy"
)

// A Fuzzy makes requests of rspamd's fuzzy protocol.
type Fuzzy struct {
	Datagrams
	Op       string
	Shingles bool
	Equal    int
	Known    uint64
	Flag     uint8
}

// Prepare sets the requests and answers of o.Op: check, near or write. It must come before Run or Measure.
func (o *Fuzzy) Prepare() error {
	switch o.Op {
	case "check", "near", "write":
	default:
		return fmt.Errorf("operation %q, want check, near or write", o.Op)
	}
	if o.Equal < 0 || o.Equal > 32 {
		return fmt.Errorf("%d equal shingles, want 0 to 32", o.Equal)
	}
	o.Request = o.AppendRequest
	o.Answer = func(data []byte) (uint32, error) {
		r, err := fuzzy.ParseReply(data)
		if err != nil {
			return 0, err
		}
		return r.Tag, r.Err()
	}
	return nil
}

// AppendRequest appends request n with the given tag.
func (o *Fuzzy) AppendRequest(dst []byte, tag uint32, n uint64) []byte {
	r := fuzzy.Request{Version: 4, Tag: tag, Command: fuzzy.Check, Shingled: o.Shingles || o.Op == "near"}
	message := n
	switch {
	case o.Known > 0 && o.Op == "write":
		message = n % o.Known
	case o.Known > 0:
		message = (n * 0x9e3779b97f4a7c15 >> 20) % o.Known
	default:
		message = n + 1<<40
	}
	if o.Op == "write" {
		r.Command, r.Flag, r.Value = fuzzy.Write, o.Flag, 10
	}
	source := rand.NewPCG(message, 1)
	for i := range len(r.Digest) / 8 {
		binary.LittleEndian.PutUint64(r.Digest[8*i:], source.Uint64())
	}
	if r.Shingled {
		for i := range r.Shingles {
			r.Shingles[i] = source.Uint64()
		}
	}
	if o.Op == "near" {
		r.Digest[0] ^= 0xff
		random := rand.New(rand.NewPCG(n, 2))
		for _, i := range random.Perm(len(r.Shingles))[o.Equal:] {
			r.Shingles[i] = random.Uint64()
		}
	}
	return r.Append(dst)
}
