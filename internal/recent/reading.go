package recent

import (
	"container/list"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
)

// maxReadings is the number of readings that are kept: more than a busy filter has between the check
// and the delivery of a message. One takes about 6 KB.
const maxReadings = 1024

// A reading is what a door read of a whole message besides its signatures.
type reading struct {
	text      bulkhead.Signature // its exact text
	messageID string
	features  []string
}

// readings remember what was read of checked messages until they are delivered. Filters send the whole
// message for the check and only its signatures for the delivery.
type readings struct {
	mu     sync.Mutex
	of     map[bulkhead.Signature]*list.Element // of *reading
	oldest list.List
}

func exactOf(sigs []bulkhead.Signature) (exact bulkhead.Signature, ok bool) {
	for i := range sigs {
		if sigs[i].Scheme() == bulkhead.Exact {
			return sigs[i], true
		}
	}
	return exact, false
}

// note remembers what was read of a message.
func (r *readings) note(sigs []bulkhead.Signature, s *bulkhead.Source) {
	text, ok := exactOf(sigs)
	if !ok || len(s.Features) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.of[text]; e != nil {
		r.oldest.Remove(e)
	} else if r.of == nil {
		r.of = make(map[bulkhead.Signature]*list.Element)
	}
	r.of[text] = r.oldest.PushBack(&reading{text, s.MessageID, s.Features})
	if r.oldest.Len() > maxReadings {
		delete(r.of, r.oldest.Remove(r.oldest.Front()).(*reading).text)
	}
}

// complete adds what was read of a message to the source of its delivery, if it has none of it.
func (r *readings) complete(sigs []bulkhead.Signature, s *bulkhead.Source) {
	text, ok := exactOf(sigs)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.of[text]
	if e == nil {
		return
	}
	read := e.Value.(*reading)
	if s.Features == nil {
		s.Features = read.features
	}
	if s.MessageID == "" {
		s.MessageID = read.messageID
	}
}
