package natsdial

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// backOff is how often the time until the next question about denied subscriptions doubles.
const backOff = 6

// A denied has the subscriptions of a connection that a server has denied. A server that allows them later delivers
// nothing until the client subscribes again, and the library does so only on a new connection.
type denied struct {
	o Options

	mu       sync.Mutex
	subjects map[string]bool // nil: nothing waits for them
}

// watch makes the connection note what is denied, and connect again once a server allows any of it.
func (d *denied) watch(o *nats.Options) error {
	next := o.AsyncErrorCB
	o.AsyncErrorCB = func(conn *nats.Conn, sub *nats.Subscription, err error) {
		if subject, ok := deniedSubject(err); ok {
			d.note(conn, subject)
		}
		if next != nil {
			next(conn, sub, err)
		}
	}
	return nil
}

// deniedSubject returns the subject of a subscription that an error denies.
func deniedSubject(err error) (subject string, ok bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return "", false
	}
	_, rest, ok := strings.Cut(err.Error(), `Subscription to "`)
	subject, _, end := strings.Cut(rest, `"`)
	return subject, ok && end
}

// note notes a denied subject.
func (d *denied) note(conn *nats.Conn, subject string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.subjects == nil {
		d.subjects = make(map[string]bool)
		go d.wait(conn, conn.StatusChanged(nats.CLOSED))
	}
	d.subjects[subject] = true
}

// wait asks now and then whether a denied subject is allowed, and then connects again. The server repeats there
// what it still denies.
func (d *denied) wait(conn *nats.Conn, closed chan nats.Status) {
	defer conn.RemoveStatusListener(closed)
	every := d.o.Ping
	for i := 0; !conn.IsClosed(); i++ {
		select {
		case <-closed:
			return
		case <-time.After(every):
		}
		d.mu.Lock()
		subjects := slices.Collect(maps.Keys(d.subjects))
		d.mu.Unlock()
		if d.o.allows(subjects) {
			d.mu.Lock()
			d.subjects = nil
			d.mu.Unlock()
			_ = conn.ForceReconnect() // fails only on a closed connection
			return
		}
		if i < backOff {
			every *= 2
		}
	}
}

// allows reports whether a server admits the client and allows it one of the subjects, on a connection of its own.
func (o *Options) allows(subjects []string) bool {
	conn, err := nats.Connect(strings.Join(o.Servers, ","), append(o.signIn(), nats.Name(o.Name), nats.NoReconnect(),
		nats.Timeout(o.Wait), nats.PermissionErrOnSubscribe(true),
		// The handlers among the options are for the connection that it asks for.
		nats.ConnectHandler(nil), nats.DisconnectErrHandler(nil),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		return false
	}
	defer conn.Close()
	var list []*nats.Subscription
	for _, s := range subjects {
		if sub, err := conn.SubscribeSync(s); err == nil {
			list = append(list, sub)
		}
	}
	if conn.FlushTimeout(o.Wait) != nil {
		return false
	}
	// The server has denied what it denies before it answered.
	return slices.ContainsFunc(list, func(sub *nats.Subscription) bool {
		_, err := sub.NextMsg(time.Nanosecond)
		return err == nil || errors.Is(err, nats.ErrTimeout)
	})
}
