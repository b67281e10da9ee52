package mail

import (
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// roles are names of mailboxes, before the @ or as a part of that, by which programs send notices. People write by
// the names of others, such as info and sales.
var roles = setOf(`
	noreply donotreply dontreply automat automatic automated auto autoresponder robot bot daemon cron
	notification notifications notify notice notices alert alerts reminder reminders
	verification verify confirmation confirm password passwords login signin otp code codes mfa authenticator
	security account accounts accountservices accountsecurity myaccount id identity
	order orders ordering bestellung bestellungen commande commandes pedido pedidos ordine ordini zamowienia
	shipping shipment shipments delivery deliveries dispatch parcel parcels paket pakete colis envios tracking versand
	billing invoice invoices rechnung rechnungen factura facturas facture fatture receipts receipt payments payment
	support service helpdesk tickets ticket desk
	voicemail voice fax efax scanner scan scans copier printer mfp kopierer
	share shares sharing docs drive sharepoint onedrive dropbox files calendar invitations invites meetings
	system monitoring nagios zabbix jenkins git builds postmaster mailer mailing updates
	nichtantworten keineantwort nepasrepondre noresponder noresponda naoresponda nonrispondere nieodpowiadaj
	nepovratka svarainte svarejkke alavastaa neodpovidat nevalaszolj
`)

// joinedRoles are the roles that consist of several words, and count wherever they stand.
var joinedRoles = []string{"noreply", "donotreply", "nichtantworten", "nepasrepondre", "noresponder", "naoresponda",
	"nonrispondere", "nieodpowiadaj", "svarainte", "neodpovidat"}

func setOf(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// isRole reports whether an address is one by which programs send notices.
func isRole(address string) bool {
	local, _, ok := strings.Cut(strings.ToLower(address), "@")
	if !ok {
		return false
	}
	var letters strings.Builder
	for word := range strings.FieldsFuncSeq(local, func(r rune) bool { return r > 0x7f || !scan.IsLetter(byte(r)) }) {
		if roles[word] {
			return true
		}
		letters.WriteString(word)
	}
	for _, role := range joinedRoles {
		if strings.Contains(letters.String(), role) {
			return true
		}
	}
	return false
}

// answers are the beginnings of subjects by which programs answer in the place of an absent person.
var answers = []string{"automatic reply", "auto reply", "auto-reply", "autoreply", "out of office", "out of the office",
	"automatische antwort", "abwesenheit", "réponse automatique", "absence du bureau", "respuesta automática",
	"fuera de la oficina", "risposta automatica", "fuori sede", "resposta automática", "fora do escritório",
	"automatisch antwoord", "afwezig", "autosvar", "automatiskt svar", "automatisk svar", "automaattinen vastaus",
	"odpowiedź automatyczna", "autoodpowiedź", "automatická odpověď", "automatikus válasz", "автоответ",
	"автоматический ответ", "自动回复", "自動返信", "자동 회신", "otomatik yanıt"}

// isAnswer reports whether a subject is one of a program that answers for an absent person.
func isAnswer(subject string) bool {
	subject = strings.ToLower(strings.TrimSpace(subject))
	for _, begin := range answers {
		if strings.HasPrefix(subject, begin) {
			return true
		}
	}
	return false
}
