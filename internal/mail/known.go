package mail

import (
	"context"
	"unsafe"
)

// messageKey is the key of a context's message.
type messageKey struct{}

// WithMessage returns a context in which [Read] of m.Raw, even if that is empty, returns m without
// reading it again. Functions that take the bytes of a message thus share one reading of it.
func WithMessage(ctx context.Context, m *Message) context.Context {
	return context.WithValue(ctx, messageKey{}, m)
}

// known returns the message of ctx if it was read from raw itself, not from equal bytes elsewhere.
func known(ctx context.Context, raw []byte) *Message {
	m, _ := ctx.Value(messageKey{}).(*Message)
	if m == nil || len(m.Raw) != len(raw) || unsafe.SliceData(m.Raw) != unsafe.SliceData(raw) {
		return nil
	}
	return m
}
