package signature

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

// The bounds of bulkhead/claim: many people share a shorter name, and only the beginning of
// a longer one is read.
const (
	claimMinLetters = 4
	claimMaxBytes   = 128
)

// claims returns the bulkhead/claim signature of a message: the letters of the name that its
// From gives the sender, folded as by bulkhead/near. An address in place of a name, a name of fewer
// than four letters, or one that names only a department or a task, gives none.
func claims(m *mail.Message) []bulkhead.Signature {
	if strings.Contains(m.FromName, "@") || isGeneral(m.FromName) {
		return nil
	}
	var b strings.Builder
	letters := 0
	for _, r := range norm.NFKD.String(m.FromName[:min(len(m.FromName), claimMaxBytes)]) {
		if r = fold(r); r != 0 {
			b.WriteRune(r)
			letters++
		}
	}
	if letters < claimMinLetters {
		return nil
	}
	return []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Claim, b.String())}
}

// generalNames are words of names that unrelated senders have in common: departments, tasks, and programs that write
// mail for every site.
var generalNames = func() map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(generalWords) {
		set[word] = true
	}
	return set
}()

const generalWords = `
	and et no of on und y admin administration administrator accounting accounts alert alerts assistance auto automatic
	bestellung bestellungen billing booking bookings buchhaltung bureau buro büro calendar care client clients
	communication communications confirmation contact contacto contatto copier customer customers cron daemon delivery
	department desk do email enquiries fax feedback form formulaire hello help helpdesk hotline hr info information
	informationen informations infos invoice invoices it jobs kontakt kontaktformular kunden kundendienst kundenservice
	list mail mailer mailings marketing member members message messages monitoring news newsletter noreply not
	notification notifications notify office online order orders personal phpmailer postmaster presse press rechnung
	rechnungen reception redaktion registration reminder reply reports root rsvp sales scan scanner secretariat
	sekretariat server service services shipping shop site store subsystem support system team test ticket tickets
	update updates user verkauf versand vertrieb verwaltung voicemail web webmaster webshop website welcome wordpress`

// isGeneral reports whether a name has words, all of which are general.
func isGeneral(name string) bool {
	found := false
	for word := range strings.FieldsFuncSeq(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if !generalNames[word] {
			return false
		}
		found = true
	}
	return found
}
