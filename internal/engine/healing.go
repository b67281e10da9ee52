package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/heal"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// Wounds returns the missing pages that peers may have.
func (e *Engine) Wounds(ctx context.Context) (out Wounds, err error) {
	err = e.queue.inTurn(ctx, func() { out = e.healer.Wounds() })
	return out, err
}

// Heal durably restores a page from a peer's replica: an image in the encoding of
// [arrays.Image.Append]. It returns an error that wraps [ErrOtherPage], and changes nothing, if the
// page is not the one that was lost, by its sum in the checkpoint. It returns an error that wraps
// [bulkhead.ErrMalformed] if the image is not a page of the array.
func (e *Engine) Heal(ctx context.Context, peer string, a Array, start uint64, image []byte) error {
	key := replica.Key{Array: a, Start: start}
	array := e.healer.Own(key)
	if array == nil {
		return fmt.Errorf("%w: %s of generation %d is gone", ErrOtherPage, a, start)
	}
	m, err := arrays.ParseImage(image, array.Geometry())
	if err == nil && m.Floor() > 0 {
		err = errors.New("it has a floor")
	}
	if err != nil || m.Generation != start {
		return fmt.Errorf("%w: page of %s, generation %d: %v", bulkhead.ErrMalformed, a, start, err)
	}
	return e.heal(ctx, peer, key, m, false)
}

// HealPublished restores pages of an array from messages that the node itself has published, and returns
// the number of restored pages. images are the encoded images of all its pages at one moment, or
// none. rounds are the later rounds, or without images all rounds from the beginning, each of which
// continues the one before. The caller vouches for their authenticity. They may lead beyond the
// last checkpoint. Pages for which they do not reach the checkpoint stay lost.
func (e *Engine) HealPublished(ctx context.Context, a Array, start uint64, images [][]byte, rounds []Part) (n int,
	err error) {
	key := replica.Key{Array: a, Start: start}
	array := e.healer.Own(key)
	if array == nil {
		return 0, fmt.Errorf("%w: %s of generation %d is gone", ErrOtherPage, a, start)
	}
	past, err := heal.Recall(array.Geometry(), start, images, rounds)
	if err != nil {
		return 0, fmt.Errorf("%w: %s of generation %d: %v", bulkhead.ErrMalformed, a, start, err)
	}
	lost, err := e.Wounds(ctx)
	if err != nil {
		return 0, err
	}
	for _, w := range lost.Pages {
		if w.Array != a || w.Start != start {
			continue
		}
		m := past.Image(w.Page)
		err := e.heal(ctx, Broker, key, m, true)
		if err == nil {
			n++
		} else if !errors.Is(err, ErrOtherPage) {
			return n, err
		}
	}
	return n, nil
}

// heal durably replaces a lost page. m is the page of a peer, or of the node's own published
// messages.
func (e *Engine) heal(ctx context.Context, peer string, key replica.Key, m *arrays.Image, published bool) error {
	sum := pages.SumOf(m)
	return e.queue.change(ctx, func() error {
		image, err := e.healer.Grown(key, m, sum, published)
		if err != nil {
			return err
		}
		if err := e.journal.refusing(); err != nil {
			return err
		}
		if err := e.commit(&codec.Heal{Array: key.Array, Start: key.Start, Image: image.Append(nil)}); err != nil {
			return err
		}
		e.healer.Healed(peer)
		return nil
	})
}

// EndHealing gives up the pages that are still missing. The node then shares its present content
// with its peers.
func (e *Engine) EndHealing(ctx context.Context) error {
	return e.queue.change(ctx, func() error {
		if !e.healer.Healing() {
			return nil
		}
		if err := e.journal.refusing(); err != nil {
			return err
		}
		return e.commit(&codec.Heal{End: true})
	})
}

// ReplicaPages returns encoded pages of an origin's replica for the origin itself, which has lost
// them. A page that is not here is nil. ReplicaPages returns an error that wraps [ErrGap] if the
// array is missing or has another geometry.
func (e *Engine) ReplicaPages(ctx context.Context, origin string, a Array, start uint64, g filter.Geometry,
	list []int) (out [][]byte, err error) {
	var images []*arrays.Image
	var copied error
	err = e.queue.inTurn(ctx, func() {
		images, copied = e.replicas.CopyPages(origin, replica.Key{Array: a, Start: start}, g, list)
	})
	if err == nil {
		err = copied
	}
	if err != nil {
		return nil, err
	}
	for _, m := range images {
		var page []byte
		if m != nil {
			page = m.Append(nil)
		}
		out = append(out, page)
	}
	return out, nil
}

// maxAdopted is the largest memory in bytes of a generation whose arrays come back from peers.
const maxAdopted = 1 << 30

// Adopt durably opens a generation with the given start in Unix seconds, for arrays of a lost store
// that come back from peers. shapes are the geometries of its shared arrays: of counts alone, or of
// spam and revoked. If the generation is live with these shapes, Adopt changes nothing. The error
// wraps [bulkhead.ErrGeometry] if a shape does not belong to the node, and [bulkhead.ErrOverLimit] if
// the generation has expired or is too large.
func (e *Engine) Adopt(ctx context.Context, start uint64, shapes map[Array]filter.Geometry) error {
	return e.queue.change(ctx, func() error {
		if err := e.journal.refusing(); err != nil {
			return err
		}
		r, err := e.adoption(start, shapes)
		if err != nil || r == nil {
			return err
		}
		return e.commit(r)
	})
}

// adoption returns the change that opens a generation for Adopt; nil if it is live.
func (e *Engine) adoption(start uint64, shapes map[Array]filter.Geometry) (*codec.Rotation, error) {
	live, bytes := 0, uint64(0)
	for a, g := range shapes {
		if !e.Knows(g.KeyID) {
			return nil, fmt.Errorf("%w: %s of generation %d is of another secret", bulkhead.ErrGeometry, a, start)
		}
		if !e.Keeps(a, start) {
			return nil, fmt.Errorf("%w: generation %d has expired", bulkhead.ErrOverLimit, start)
		}
		bytes += g.Bytes()
		if own := e.healer.Own(replica.Key{Array: a, Start: start}); own != nil {
			if own.Geometry() != g {
				return nil, fmt.Errorf("%w: %s of generation %d has another shape", bulkhead.ErrGeometry, a, start)
			}
			live++
		}
	}
	if bytes > maxAdopted {
		return nil, fmt.Errorf("%w: generation %d of %d bytes, limit %d", bulkhead.ErrOverLimit, start, bytes, maxAdopted)
	}
	if live == len(shapes) {
		return nil, nil
	}
	if live > 0 {
		return nil, fmt.Errorf("%w: generation %d is live without some of its arrays", bulkhead.ErrGeometry, start)
	}
	out := new(codec.Rotation)
	if counts, ok := shapes[ArrayCounts]; ok {
		s, err := book.AdoptTally(e.writer.tally, start, counts)
		out.OpenTally = &s
		return out, err
	}
	s, err := book.AdoptBlock(e.writer.block, start, shapes[ArraySpam], shapes[ArrayRevoked])
	out.OpenBlock = &s
	return out, err
}

// TakeBack durably replaces a page of an adopted generation with the page of a peer's replica, an
// image in the encoding of [arrays.Image.Append], if that has more adds. It returns an error that
// wraps [bulkhead.ErrMalformed] if the image is not a page of the array. See [Engine.Adopt].
func (e *Engine) TakeBack(ctx context.Context, peer string, a Array, start uint64, image []byte) error {
	key := replica.Key{Array: a, Start: start}
	return e.queue.change(ctx, func() error {
		array := e.healer.Own(key)
		if array == nil {
			return nil // it has expired
		}
		m, err := arrays.ParseImage(image, array.Geometry())
		if err == nil && m.Floor() > 0 {
			err = errors.New("it has a floor")
		}
		if err != nil || m.Generation != start {
			return fmt.Errorf("%w: page of %s, generation %d: %v", bulkhead.ErrMalformed, a, start, err)
		}
		if m.Info.Version <= array.Image(m.Page).Info.Version {
			return nil
		}
		if err := e.journal.refusing(); err != nil {
			return err
		}
		if err := e.commit(&codec.Heal{Array: a, Start: start, Image: image}); err != nil {
			return err
		}
		e.healer.Healed(peer)
		return nil
	})
}
