package command

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

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
	case errors.Is(err, bulkhead.ErrReadOnly), errors.Is(err, bulkhead.ErrOverLimit), errors.Is(err, store.ErrInUse):
		code = cli.Temporary
	case errors.Is(err, bulkhead.ErrUnauthorised), errors.Is(err, bulkhead.ErrForbidden),
		errors.Is(err, store.ErrPermission), errors.Is(err, local.ErrStranger):
		code = cli.NoPerm
	case errors.As(err, &dial), errors.As(err, &asked):
		code = cli.Unavailable
	}
	return int(code)
}

// hintFor returns what to do about an error of a command, or "" if the error needs no hint.
func hintFor(cmd *cobra.Command, err error) string {
	var wrong cli.UsageError
	switch {
	case errors.As(err, &wrong):
		program, name, _ := strings.Cut(cmd.CommandPath(), " ")
		if name == "help" {
			name = ""
		}
		return fmt.Sprintf("see \"%s\"", strings.TrimSpace(program+" help "+name))
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is a node running? start one with \"bulkhead serve\", or name one with --server"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another program listens there; name another address in [listen] of a configuration file"
	case errors.Is(err, store.ErrInUse):
		return "another node uses this folder; stop it, or name another folder with --data"
	case errors.Is(err, bulkhead.ErrUnauthorised):
		hint := "name a token with --token-file or $BULKHEAD_TOKEN, or run this as root, as the node's user or as a " +
			"member of the group bulkhead on the node's machine"
		if cmd.Flags().Lookup("data") != nil {
			hint += ", with --data if it is not the installed node"
		}
		return hint
	case errors.Is(err, local.ErrStranger):
		return "if that user runs the node, name it with --server"
	case errors.Is(err, fs.ErrPermission):
		return "run this as a user who may; for a node's data folder that is the node's user"
	}
	return ""
}

var (
	asking  = regexp.MustCompile(`\b(?:Get|Post|Put|Patch|Delete|Head|Read) "(https?://[^/"]*)?[^"]*": `)
	dialing = regexp.MustCompile(`dial (?:tcp|udp)(?: \S+)?: (?:connect: )?|dial unix (\S+: )(?:connect: )?`)
)

// A plainError is an error without the words of libraries: it names the node that did not answer, and
// why.
type plainError struct{ error }

// Error implements error.
func (e plainError) Error() string {
	text := strings.ReplaceAll(e.error.Error(), "client: ", "")
	text = asking.ReplaceAllStringFunc(text, func(found string) string {
		server := asking.FindStringSubmatch(found)[1]
		if server == socketServer {
			server = "this machine's socket"
		}
		return "no node answers at " + server + ": "
	})
	return dialing.ReplaceAllString(text, "$1")
}

// Unwrap returns the error inside.
func (e plainError) Unwrap() error { return e.error }

// Complain prints an error of a command and a hint what to do about it, unless the error only carries
// an answer's exit code.
func Complain(cmd *cobra.Command, err error) {
	var code cli.Code
	switch {
	case err == nil, errors.As(err, &code) && err == error(code):
	default:
		cli.Complain(cmd.ErrOrStderr(), "bulkhead", plainError{err}, hintFor(cmd, err))
	}
}
