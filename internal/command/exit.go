package command

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/local"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// CodeOf returns the exit code for an error. An unreadable file comes last, because an error about
// a file's contents is more specific.
func CodeOf(err error) int {
	var cfg *config.Error
	var damage *store.DamageError
	var dial *net.OpError
	var asked *url.Error // the node did not answer
	var refusal *client.Problem
	code, known := cli.CodeOf(err)
	switch {
	case known && code != cli.NoInput:
	case errors.As(err, &cfg):
		code = cli.Config
	case errors.As(err, &damage), errors.Is(err, store.ErrFormat), errors.Is(err, bulkhead.ErrMalformed),
		errors.Is(err, bulkhead.ErrGeometry):
		code = cli.Data
	case errors.As(err, &refusal) && refusal.Status == http.StatusRequestEntityTooLarge:
		code = cli.Data // over a fixed limit, so that a retry fails again
	case errors.Is(err, bulkhead.ErrReadOnly), errors.Is(err, bulkhead.ErrOverLimit):
		code = cli.Temporary
	case errors.Is(err, bulkhead.ErrUnauthorised), errors.Is(err, bulkhead.ErrForbidden),
		errors.Is(err, store.ErrPermission), errors.Is(err, local.ErrStranger):
		code = cli.NoPerm
	case errors.As(err, &dial), errors.As(err, &asked):
		code = cli.Unavailable
	}
	return int(code)
}

// hintFor returns what to do about an error, or "" if the error needs no hint.
func hintFor(err error) string {
	var wrong cli.UsageError
	switch {
	case errors.As(err, &wrong):
		return "see \"bulkhead help\""
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is a node running? start one with \"bulkhead serve\", or name one with --server"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another program listens there; name another address in [listen] of a configuration file"
	case errors.Is(err, store.ErrInUse):
		return "another node uses this folder; stop it, or name another folder with --data"
	case errors.Is(err, bulkhead.ErrUnauthorised):
		return "name a token with --token-file or $BULKHEAD_TOKEN, or run this as root, as the node's user or as a " +
			"member of the group bulkhead on the node's machine"
	case errors.Is(err, local.ErrStranger):
		return "if that user runs the node, name it with --server"
	}
	return ""
}

// Complain prints an error and a hint what to do about it, unless the error only carries an
// answer's exit code.
func Complain(w io.Writer, err error) {
	if err != nil {
		cli.Complain(w, "bulkhead", err, hintFor(err))
	}
}
