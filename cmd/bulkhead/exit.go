package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/api"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// An exitCode is an error that says nothing but the code to exit with.
type exitCode int

// The exit codes. Those from 64 on are sysexits.h's.
const (
	exitOK                   = 0
	exitUnwanted    exitCode = 1 // check: spam or bulk
	exitUsage       exitCode = 64
	exitData        exitCode = 65 // a message or file is not what it should be
	exitNoInput     exitCode = 66 // a file cannot be read
	exitUnavailable exitCode = 69 // no node answers
	exitSoftware    exitCode = 70 // a fault of the program or the node
	exitTemporary   exitCode = 75 // trying again later may succeed
	exitNoPerm      exitCode = 77
	exitConfig      exitCode = 78
)

// Error implements error.
func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// A usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// A dataError is a file or entry that is not what it should be.
type dataError struct{ error }

func (e dataError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// usage makes the argument errors of cobra usage errors.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	var code exitCode
	var wrong usageError
	var cfg *config.Error
	var damage *store.DamageError
	var data dataError
	var dial *net.OpError
	var asked *url.Error // a node that was silent, or gone before it had answered
	var refusal *api.Problem
	var input inputError
	switch {
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &wrong) || strings.HasPrefix(err.Error(), "unknown command"):
		return int(exitUsage)
	case errors.As(err, &cfg):
		return int(exitConfig)
	case errors.As(err, &data), errors.As(err, &damage), errors.Is(err, store.ErrFormat), errors.Is(err, bulkhead.ErrMalformed), errors.Is(err, bulkhead.ErrGeometry):
		return int(exitData)
	case errors.As(err, &refusal) && refusal.Status == http.StatusRequestEntityTooLarge:
		return int(exitData) // over a limit that no later try is below
	case errors.Is(err, bulkhead.ErrReadOnly), errors.Is(err, bulkhead.ErrOverLimit):
		return int(exitTemporary)
	case errors.Is(err, bulkhead.ErrUnauthorised), errors.Is(err, bulkhead.ErrForbidden), errors.Is(err, store.ErrPermission):
		return int(exitNoPerm)
	case errors.As(err, &dial), errors.As(err, &asked):
		return int(exitUnavailable)
	case errors.As(err, &input), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return int(exitNoInput)
	}
	return int(exitSoftware)
}

// hintFor returns what to do about an error, "" if the error says it all.
func hintFor(err error) string {
	var wrong usageError
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
		return "name a token with --token-file or $BULKHEAD_TOKEN"
	}
	return ""
}
