package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Signatures have the form of minisign, in its variant that signs the file itself:
// https://jedisct1.github.io/minisign/, section "Signature format".
const (
	algorithm    = "Ed"
	keyNumber    = 8 // bytes that name a key
	secretName   = "RELEASE_KEY"
	untrusted    = "untrusted comment: "
	trusted      = "trusted comment: "
	publicPrefix = untrusted + "bulkhead's public key "
)

// A signer is a secret key and its number.
type signer struct {
	number []byte
	key    ed25519.PrivateKey
}

// parseSecret reads the secret that newKey has written.
func parseSecret(text string) (*signer, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != keyNumber+ed25519.SeedSize {
		return nil, fmt.Errorf("%s is not a secret of \"release key\"", secretName)
	}
	return &signer{b[:keyNumber], ed25519.NewKeyFromSeed(b[keyNumber:])}, nil
}

// newKey writes the secret of a new key to out, and its public key, the file that verifies, to public.
func newKey(out io.Writer, public string) error {
	b := make([]byte, keyNumber+ed25519.SeedSize)
	rand.Read(b) // never fails
	secret := base64.StdEncoding.EncodeToString(b)
	s, err := parseSecret(secret)
	if err != nil {
		return err
	}
	if err := os.WriteFile(public, s.public(), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, secret)
	return err
}

// public returns the file of the public key.
func (s *signer) public() []byte {
	key := slices.Concat([]byte(algorithm), s.number, s.key.Public().(ed25519.PublicKey))
	encoded := base64.StdEncoding.EncodeToString(key)
	return fmt.Appendf(nil, "%s%s\n%s\n", publicPrefix, hex.EncodeToString(s.number), encoded)
}

// sign returns the file of a signature. The comment is signed as well.
func (s *signer) sign(content []byte, comment string) []byte {
	signature := ed25519.Sign(s.key, content)
	global := ed25519.Sign(s.key, append(slices.Clone(signature), comment...))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, "%ssignature of a release of bulkhead\n%s\n%s%s\n%s\n", untrusted,
		encode(slices.Concat([]byte(algorithm), s.number, signature)), trusted, comment, encode(global))
}

// verify returns the signed comment of a signature, or an error if it is not one of the content by the
// key of a public file.
func verify(public, signature, content []byte) (comment string, err error) {
	errWrong := errors.New("the signature is wrong")
	keys, lines := strings.Split(string(public), "\n"), strings.Split(string(signature), "\n")
	if len(keys) < 2 || len(lines) < 4 || !strings.HasPrefix(lines[2], trusted) {
		return "", errors.New("not a public key and a signature of minisign")
	}
	comment = strings.TrimPrefix(lines[2], trusted)
	strict := base64.StdEncoding.Strict() // one text for each signature
	key, err1 := strict.DecodeString(keys[1])
	one, err2 := strict.DecodeString(lines[1])
	global, err3 := strict.DecodeString(lines[3])
	head := len(algorithm) + keyNumber
	if errors.Join(err1, err2, err3) != nil || len(key) != head+ed25519.PublicKeySize ||
		len(one) != head+ed25519.SignatureSize || !bytes.Equal(key[:head], one[:head]) {
		return "", errWrong
	}
	if !ed25519.Verify(key[head:], content, one[head:]) ||
		!ed25519.Verify(key[head:], append(slices.Clone(one[head:]), comment...), global) {
		return "", errWrong
	}
	return comment, nil
}

// signFile writes the signature of a file beside it, by the key of the environment.
func signFile(path, comment string) error {
	s, err := parseSecret(os.Getenv(secretName))
	if err != nil {
		return err
	}
	if strings.ContainsAny(comment, "\r\n") {
		return fmt.Errorf("the comment %q has more than one line", comment)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path+".minisig", s.sign(content, comment), 0o644)
}

// verifyFile prints the signed comment of a file whose signature is beside it.
func verifyFile(out io.Writer, public, path string) error {
	var files [3][]byte
	for i, name := range []string{public, path + ".minisig", path} {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files[i] = b
	}
	comment, err := verify(files[0], files[1], files[2])
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = fmt.Fprintln(out, comment)
	return err
}
