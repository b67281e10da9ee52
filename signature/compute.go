package signature

import (
	"context"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// Options control how signatures are computed. The zero Options are valid.
type Options struct {
	// Key is the secret of the network. Only nodes with the same key recognise each other's
	// bulkhead/near signatures, and without the key a sender cannot foresee on which words of a
	// message they rest.
	Key [16]byte
	// KeyNow, if not nil, returns the key for each message in place of Key, since a network
	// may change its secret while a node runs. It may be called concurrently.
	KeyNow func() [16]byte
	// DCC is what is known, beyond the message, for the DCC checksums.
	DCC dcc.Options
	// Rspamd computes rspamd/text and rspamd/shingle; nil means rspamd's default keys
	// and mumhash. Only clients with the same keys and algorithm in their rule find
	// these signatures.
	Rspamd *rspamd.Hasher
	// RspamdPolicy selects the parts of a message for them. Attachments count
	// whatever their type.
	RspamdPolicy rspamd.Policy
	// Workers is the number of goroutines that share the work on one message. Below 2, only the
	// caller's goroutine does the work.
	Workers int
	// AboveFloor leaves out the signatures of the text by other schemes if the message has too little
	// text for a bulkhead/near signature. The schemes of other clearinghouses have a sum even for next to
	// nothing, such as the line "Version: 1" of encrypted mail. One report of such a sum would list every
	// message like it. A message that a program wrote, according to its header or its sender's role, needs a longer
	// text for all schemes except bulkhead/exact: mail of such a program has its words in common. dcc/body stays
	// if the message has a link and no bulkhead/exact signature. Set AboveFloor
	// wherever whole messages are judged; clients of those schemes send their own sums. rspamd/text stays
	// if a part has a bulkhead/attachment signature: rspamd computes no sum of a text as short as that.
	AboveFloor bool
	// Skip lists schemes to leave out; nil computes all schemes.
	Skip []bulkhead.Scheme
}

// Compute reads a raw message and returns all signatures of its content, none twice. The result is
// empty for a message that has none (see the package documentation). [Senders] returns the
// signatures of its sender. Checksums of its path or identifiers are not included.
//
// It fails only when raw is empty (the error wraps
// [bulkhead.ErrMalformed]) or longer than 64 MiB (it wraps [bulkhead.ErrOverLimit]), or when ctx
// ends (it wraps the error of ctx).
func Compute(ctx context.Context, raw []byte, opts Options) ([]bulkhead.Signature, error) {
	m, err := mail.Read(ctx, raw)
	if err != nil {
		return nil, err
	}
	return signaturesOf(ctx, m, opts)
}

// signaturesOf is Compute for a message that has been read. It fails only when ctx ends, with an error
// that wraps the error of ctx.
func signaturesOf(ctx context.Context, m *mail.Message, opts Options) ([]bulkhead.Signature, error) {
	if p := pace.New(ctx); p.Over(1) {
		return nil, pace.Ended(p)
	}
	if opts.KeyNow != nil {
		opts.Key = opts.KeyNow()
	}
	c := collector{skip: opts.Skip}
	texts, k := &attachedTexts{}, kind{}
	families := []family{
		c.family(func() ([]bulkhead.Signature, error) { return ownSchemes(ctx, m, opts, texts, &k) }, bulkhead.Exact,
			bulkhead.Near, bulkhead.Part, bulkhead.Sketch),
		c.family(func() ([]bulkhead.Signature, error) { return linkSignatures(ctx, m, opts.Key, &k.abroad) }, bulkhead.Link),
		c.family(func() ([]bulkhead.Signature, error) { return contactSignatures(ctx, m, opts.Key) }, bulkhead.Contact),
		c.family(func() ([]bulkhead.Signature, error) { return attachmentSignatures(ctx, m, texts) }, bulkhead.Attachment),
		c.family(func() ([]bulkhead.Signature, error) { return imageSignatures(ctx, m, opts.Key) }, bulkhead.Image),
		c.family(func() ([]bulkhead.Signature, error) { return markupSignatures(ctx, m) }, bulkhead.Markup),
		c.family(func() ([]bulkhead.Signature, error) { return claims(m), nil }, bulkhead.Claim),
		// The schemes of other clearinghouses.
		c.family(func() ([]bulkhead.Signature, error) { return razor.Signatures(ctx, m.Raw) }, bulkhead.RazorE4,
			bulkhead.RazorE8),
		c.family(func() ([]bulkhead.Signature, error) { return pyzor.SignaturesKnowing(ctx, m.Raw, m.Unquoted) },
			bulkhead.PyzorDigest),
		c.family(func() ([]bulkhead.Signature, error) { return dccContent(ctx, m, opts.DCC) }, bulkhead.DCCBody,
			bulkhead.DCCFuz1, bulkhead.DCCFuz2),
		c.family(func() ([]bulkhead.Signature, error) { return rspamdContent(ctx, m, opts) }, bulkhead.RspamdText,
			bulkhead.RspamdShingle),
	}
	results, err := inParallel(families, opts.Workers)
	if err != nil {
		return nil, err
	}
	sigs := c.gather(results)
	if opts.AboveFloor {
		sigs = aboveFloor(m, sigs, k)
	}
	return sigs, nil
}

// ownSchemes returns the signatures of the text by bulkhead's own schemes. It sets what k
// has about the words of the message.
func ownSchemes(ctx context.Context, m *mail.Message, opts Options, texts *attachedTexts,
	k *kind) ([]bulkhead.Signature, error) {
	p := pace.New(ctx)
	b := builders.Get().(*skeletonBuilder)
	defer b.back()
	s, err := b.skeleton(ctx, m, texts, p)
	if err != nil {
		return nil, err
	}
	k.template = s.footer && s.words.len() == 0
	k.wordy = enough(wordsOf(m)*s.words.perWord(), exactMinLetters, &s.words)
	sigs, err := exact(ctx, m, s, p)
	if err != nil {
		return nil, err
	}
	h := &b.hashes
	key := h.keyOf(opts.Key)
	h.take(key, s)
	sigs = slices.Concat(sigs, key.near(s, h), parts(s, h))
	if err := pace.Ended(p); err != nil {
		return nil, err
	}
	return sigs, nil
}

// A family computes the signatures of schemes that share their work.
type family func() ([]bulkhead.Signature, error)

// inParallel calls the functions, except nil ones, from up to workers goroutines, and
// returns their results in the same order, or the first error. It passes a panic on to its
// caller.
func inParallel(calls []family, workers int) ([][]bulkhead.Signature, error) {
	results, errs := make([][]bulkhead.Signature, len(calls)), make([]error, len(calls))
	var next atomic.Int32
	var panicked atomic.Pointer[any]
	work := func() {
		defer func() {
			if p := recover(); p != nil {
				panicked.Store(&p)
			}
		}()
		for i := int(next.Add(1)) - 1; i < len(calls); i = int(next.Add(1)) - 1 {
			if calls[i] != nil {
				results[i], errs[i] = calls[i]()
			}
		}
	}
	var others sync.WaitGroup
	for range workers - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// dccContent returns the DCC checksums of the body, Fuz1 by the rules of all clients in use.
func dccContent(ctx context.Context, m *mail.Message, opts dcc.Options) ([]bulkhead.Signature, error) {
	opts.BothRules, opts.Unquoted = true, m.Unquoted
	sums, err := dcc.BodySums(ctx, m.Raw, opts)
	var sigs []bulkhead.Signature
	for _, sum := range sums {
		sigs = appendSignature(sigs, sum.Type.Scheme(), sum.Sum[:])
	}
	return sigs, err
}

// defaultRspamd has the keys of a rule that sets none.
var defaultRspamd = rspamd.NewHasher("", "", rspamd.MumHash)

// maxRspamdParts is the maximum number of parts of a message that have rspamd signatures.
const maxRspamdParts = 16

// rspamdContent returns the digests by which rspamd's fuzzy_check knows the
// parts of m, and the bands of the first text that has shingles.
func rspamdContent(ctx context.Context, m *mail.Message, opts Options) ([]bulkhead.Signature, error) {
	h := opts.Rspamd
	if h == nil {
		h = defaultRspamd
	}
	policy := opts.RspamdPolicy
	policy.AllTypes = true
	hashes, err := h.Hashes(mail.WithMessage(ctx, m), m.Raw, policy)
	if err != nil {
		return nil, err
	}
	var sigs []bulkhead.Signature
	var shingles *[rspamd.Shingles]uint64
	for i := range hashes[:min(len(hashes), maxRspamdParts)] {
		sigs = append(sigs, hashes[i].Signature())
		if shingles == nil {
			shingles = hashes[i].Shingles
		}
	}
	if shingles != nil {
		sigs = rspamd.AppendBands(sigs, shingles, rspamd.Votes)
	}
	return sigs, nil
}

// A collector gathers wanted signatures, none twice.
type collector struct{ skip []bulkhead.Scheme }

func (c *collector) wants(scheme bulkhead.Scheme) bool { return !slices.Contains(c.skip, scheme) }

// family returns compute if any of its schemes is wanted, else nil.
func (c *collector) family(compute family, schemes ...bulkhead.Scheme) family {
	if slices.ContainsFunc(schemes, c.wants) {
		return compute
	}
	return nil
}

func (c *collector) gather(results [][]bulkhead.Signature) []bulkhead.Signature {
	n := 0
	for _, sigs := range results {
		n += len(sigs)
	}
	all := make([]bulkhead.Signature, 0, n)
	known := newPositions(n)
	for _, sigs := range results {
		for i := range sigs {
			if at := known.of(all, &sigs[i]); *at == 0 && c.wants(sigs[i].Scheme()) {
				all = append(all, sigs[i])
				*at = uint32(len(all))
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// positions is a hash table from signatures to their positions in a list, counted from 1. On a
// collision, an entry takes the next free place. A map takes four times as long, and four times
// as much memory.
type positions struct {
	seed  maphash.Seed
	table []uint32
}

// newPositions returns the positions of up to n signatures.
func newPositions(n int) positions {
	return positions{maphash.MakeSeed(), make([]uint32, 1<<bits.Len(uint(2*n)))}
}

// of returns a pointer to the position of a signature. The position is 0 if the signature is not
// in the list.
func (p *positions) of(list []bulkhead.Signature, sig *bulkhead.Signature) *uint32 {
	for at := maphash.Bytes(p.seed, sig.Sum()); ; at++ {
		place := &p.table[at%uint64(len(p.table))]
		if *place == 0 || list[*place-1] == *sig {
			return place
		}
	}
}

// appendSignature appends the signature of a sum; without a sum it does nothing.
func appendSignature(sigs []bulkhead.Signature, scheme bulkhead.Scheme, sum []byte) []bulkhead.Signature {
	if sig, err := bulkhead.NewSignature(scheme, sum); err == nil {
		sigs = append(sigs, sig)
	}
	return sigs
}
