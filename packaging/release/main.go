// Command release makes what accompanies the program in its packages:
//
//	release notices PACKAGE          the licences of all that is linked into a package, as text
//	release sbom PROGRAM             the modules of a built program, as CycloneDX
//	release image PROGRAM VERSION    a container image with a built program, as an archive to load
//	release key PUBLIC               a new key for releases: its secret; the public key goes into a file
//	release sign FILE COMMENT        FILE.minisig, a signature by the secret in $RELEASE_KEY
//	release verify PUBLIC FILE       the signed comment of FILE.minisig
//
// Each of the others writes to standard output. The bytes do not depend on the time or the machine, except
// for a new key. It is a module of its own, so that its dependencies are not linked into the program.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	if err := errors.Join(run(os.Args[1:], out), out.Flush()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "notices":
		return writeNotices(out, args[1])
	case len(args) == 2 && args[0] == "sbom":
		return writeSBOM(out, args[1])
	case len(args) == 3 && args[0] == "image":
		return writeImage(out, args[1], args[2], time.Unix(1, 0).UTC())
	case len(args) == 2 && args[0] == "key":
		return newKey(out, args[1])
	case len(args) == 3 && args[0] == "sign":
		return signFile(args[1], args[2])
	case len(args) == 3 && args[0] == "verify":
		return verifyFile(out, args[1], args[2])
	}
	return fmt.Errorf("unknown arguments %q", args)
}
