// Package natsdial connects a node to NATS servers. Every connection of the mesh, of the lease of a pair and of a
// journal in a stream has the same rules for signing in, for trying again and for dead links.
package natsdial

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Options are the settings of a connection.
type Options struct {
	Servers []string // URLs
	Name    string   // of the client, for the operator of the servers
	Access  Access
	Wait    time.Duration // for one attempt to connect
	Retry   time.Duration // between two attempts
	Ping    time.Duration // between two pings of a silent link
	Pings   int           // unanswered, until the link is dead
	Further []nats.Option
}

// Connect begins to connect in the background, and connects again whenever the connection is lost. It does not
// give up at servers that refuse the node, whose administrator may mend that. It also connects again once a server
// allows a subscription that it has denied. An error is about the options.
func Connect(o Options) (*nats.Conn, error) {
	return nats.Connect(strings.Join(o.Servers, ","), append(o.signIn(),
		nats.Name(o.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(o.Retry), nats.ReconnectBufSize(-1), nats.Timeout(o.Wait),
		nats.PingInterval(o.Ping), nats.MaxPingsOutstanding(o.Pings), nats.Dialer(dialer(o.Wait)),
		(&denied{o: o}).watch)...)
}

// Entry connects to each server once, and returns why none of them admits the node; nil if one does. The library
// keeps only the error of the last server that it tried, and none if that one is down.
func Entry(o Options) (reason error) {
	for _, s := range o.Servers {
		conn, err := nats.Connect(s, append(o.signIn(), nats.NoReconnect(), nats.Timeout(o.Wait))...)
		if err == nil {
			conn.Close()
			return nil
		}
		if reason == nil || IsRefusal(err) {
			reason = err
		}
	}
	return reason
}

// Why adds to the error of a request why the node has no connection, or what the server has denied if it gave no
// answer.
func Why(conn *nats.Conn, err error) error {
	last := conn.LastError()
	unanswered := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
	denied := unanswered && errors.Is(last, nats.ErrPermissionViolation)
	if err == nil || last == nil || conn.IsConnected() && !denied {
		return err
	}
	return fmt.Errorf("%w: %w", last, err)
}

// signIn returns the options by which a server knows the client, and the client a server.
func (o *Options) signIn() []nats.Option {
	list := slices.Clone(o.Further)
	if o.Access.Credentials != "" && o.Access.Credentials != NoCredentials {
		list = append(list, nats.UserCredentials(o.Access.Credentials))
	}
	if o.Access.CA != "" {
		list = append(list, nats.RootCAs(o.Access.CA))
	}
	if o.Access.Cert != "" {
		list = append(list, nats.ClientCert(o.Access.Cert, o.Access.Key))
	}
	return list
}

// IsRefusal reports whether an error is of a server that does not admit the node.
func IsRefusal(err error) bool {
	return strings.Contains(strings.ToLower(err.Error()), nats.ErrAuthorization.Error()[len("nats: "):])
}

// Cleared keeps the text of an error of the NATS library, and drops its type.
func Cleared(err error) error { return errors.New(err.Error()) }

// Redacted returns a list of URLs without the passwords in them. A user without a password is a
// token, and is hidden.
func Redacted(servers string) string {
	list := strings.Split(servers, ",")
	for i, s := range list {
		u, err := url.Parse(s)
		if err != nil || u.User == nil {
			continue
		}
		if _, ok := u.User.Password(); !ok {
			u.User = url.User("xxxxx")
		}
		list[i] = u.Redacted()
	}
	return strings.Join(list, ",")
}
