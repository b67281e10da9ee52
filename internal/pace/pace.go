// Package pace lets long work on a message end with its context.
package pace

import (
	"context"
	"fmt"
	"hash"
	"io"
)

// Step is how many bytes of work may pass between two looks at the context.
const Step = 64 << 10

// A Pace counts work and looks at its context now and then. It serves one
// goroutine. A nil Pace never ends.
type Pace struct {
	ctx  context.Context
	left int // bytes of work until the next look
	err  error
}

// New returns the pace of work under ctx. The first work looks at ctx.
func New(ctx context.Context) *Pace { return &Pace{ctx: ctx} }

// Over announces n more bytes of work, and reports whether they must be left undone because
// the context has ended. Once it has reported true it always does.
func (p *Pace) Over(n int) bool {
	if p == nil {
		return false
	}
	if p.left -= n; p.left > 0 {
		return false
	}
	if p.err == nil {
		p.err = p.ctx.Err()
	}
	if p.err == nil {
		p.left = Step
	}
	return p.err != nil
}

// Err returns the context's error if Over has reported it, else nil.
func (p *Pace) Err() error {
	if p == nil {
		return nil
	}
	return p.err
}

// Ended returns the error of work that p has ended, nil if it has not.
func Ended(p *Pace) error {
	if err := p.Err(); err != nil {
		return fmt.Errorf("signature: message not read to its end: %w", err)
	}
	return nil
}

// Reader returns a reader of r that fails with the context's error once p is over.
func Reader(r io.Reader, p *Pace) io.Reader { return &reader{r, p} }

type reader struct {
	r    io.Reader
	pace *Pace
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b[:min(len(b), Step)])
	if r.pace.Over(n) {
		return 0, r.pace.Err()
	}
	return n, err
}

// Write writes data to h as long as p allows.
func Write(h hash.Hash, data []byte, p *Pace) {
	for len(data) > 0 {
		n := min(len(data), Step)
		if p.Over(n) {
			return
		}
		h.Write(data[:n])
		data = data[n:]
	}
}
