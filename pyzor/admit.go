package pyzor

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

var (
	errUnknownUser = &refusal{401, "Unauthorized: Signature Error: Unknown user."}
	errTimestamp   = &refusal{401, "Unauthorized: Signature Error: Timestamp not within allowed range."}
	errSignature   = &refusal{401, "Unauthorized: Signature Error: Invalid signature."}
	errTime        = &refusal{400, "Bad request: Time of a signed request is not a number"}
	errNoVersion   = &refusal{400, "Bad request: Protocol Version not specified in request"}
	errBadVersion  = &refusal{400, "Bad request: Invalid Protocol Version"}
	errVersion     = &refusal{505, "Version Not Supported: "}
	errUnlisted    = &refusal{422, "Unprocessable: no client may list this digest here"}
	errForbidden   = &refusal{403, "Forbidden: User is not authorized to request the operation."}
)

// admit checks a request in the original server's order: signature, version, permission.
// Source: docs/specs/pyzor.md#order-of-checks.
func (s *Server) admit(ctx context.Context, r *Request) error {
	// A long or folded Thread would only serve to reflect text.
	if len(r.Thread) > 32 {
		return &refusal{400, "Bad request: Thread is too long"}
	}
	allowed := s.Anonymous
	if len(r.User) > 0 && string(r.User) != anonymous {
		if err := s.authenticate(ctx, r); err != nil {
			return err
		}
		allowed, r.authentic = s.Users, true
	}
	if err := checkVersion(r); err != nil {
		return err
	}
	if !slices.Contains(allowed, Op(r.Op)) {
		return errForbidden
	}
	return nil
}

func (s *Server) authenticate(ctx context.Context, r *Request) error {
	if s.Accounts == nil {
		return errUnknownUser
	}
	key, ok, err := s.Accounts.Secret(ctx, string(r.User))
	switch {
	case errors.Is(err, bulkhead.ErrForbidden), err == nil && !ok:
		return errUnknownUser
	case err != nil:
		return err
	}
	seconds, err := strconv.ParseInt(string(r.Time), 10, 64)
	if err != nil {
		return errTime
	}
	now := time.Now().Unix()
	if limit := int64(maxSkew / time.Second); seconds < now-limit || seconds > now+limit {
		return errTimestamp
	}
	time := strconv.AppendInt(nil, seconds, 10)
	want := signatureOf(r.signed(), time, accountKey(r.User, key))
	if !r.hasSig || subtle.ConstantTimeCompare(want[:], r.Sig) != 1 {
		return errSignature
	}
	return nil
}

// checkVersion accepts any number whose integer part is 2.
func checkVersion(r *Request) error {
	if !r.hasPV {
		return errNoVersion
	}
	n, err := strconv.ParseFloat(string(bytes.TrimSpace(r.Version)), 64)
	if err != nil {
		return errBadVersion
	}
	if !(n >= 2 && n < 3) { // also false for NaN
		return errVersion
	}
	return nil
}
