package manage

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/api"
)

// The node stores a hash of an account's password for the pages: the rounds as four bytes, big
// endian, the salt, and PBKDF2 with HMAC-SHA-256 (RFC 8018).
const (
	leastPassword  = 12      // characters
	passwordRounds = 600_000 // OWASP Password Storage Cheat Sheet, 2023
	saltBytes      = 16
	hashBytes      = sha256.Size
)

// hashPassword returns the stored form of a password.
func hashPassword(password string) ([]byte, error) {
	if n := utf8.RuneCountInString(password); n < leastPassword {
		return nil, fmt.Errorf("%w: the password has %d characters, want %d or more", bulkhead.ErrMalformed, n, leastPassword)
	}
	kept := binary.BigEndian.AppendUint32(nil, passwordRounds)
	salt := make([]byte, saltBytes)
	rand.Read(salt) // never fails
	kept = append(kept, salt...)
	hash, err := pbkdf2.Key(sha256.New, password, salt, passwordRounds, hashBytes)
	return append(kept, hash...), err
}

// isPassword reports whether kept is the stored form of a password.
func isPassword(kept []byte, password string) bool {
	if len(kept) != 4+saltBytes+hashBytes {
		return false
	}
	rounds, salt, want := binary.BigEndian.Uint32(kept), kept[4:4+saltBytes], kept[4+saltBytes:]
	hash, err := pbkdf2.Key(sha256.New, password, salt, int(rounds), hashBytes)
	return err == nil && subtle.ConstantTimeCompare(hash, want) == 1
}

// AuthenticatePassword implements [api.Passwords]. It takes equally long for an account that does
// not exist or has no password. It returns at once if no account has a password: guessing costs
// nothing there.
func (a *Accounts) AuthenticatePassword(_ context.Context, name, password string) (string, error) {
	wrong := fmt.Errorf("%w: no account has this name and password", bulkhead.ErrUnauthorised)
	if !a.book().AnySealed(api.PagesSecret) {
		return "", wrong
	}
	kept := binary.BigEndian.AppendUint32(nil, passwordRounds)
	kept = append(kept, make([]byte, saltBytes+hashBytes)...) // of no account
	account, ok := a.book().Get(name)
	if ok = ok && !account.Closed && len(account.Sealed[api.PagesSecret]) > 0; ok {
		var err error
		if kept, err = a.opts.Sealer.Open(name, api.PagesSecret, account.Sealed[api.PagesSecret]); err != nil {
			return "", err
		}
	}
	if !isPassword(kept, password) || !ok {
		return "", wrong
	}
	return name, nil
}
