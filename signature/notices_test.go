package signature_test

// notices are kinds of mail that programs write in other words and languages than the kinds of machines. Many do
// not say in their header that a program wrote them.
var notices = map[string]func(m maker) string{
	"password reset, German": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain("Kundenkonto <nicht-antworten@"+host+">", "Passwort zurücksetzen",
			"Hallo "+m.name()+",\n\nfür Ihr Konto wurde ein neues Passwort angefordert. Bitte klicken Sie auf den folgenden "+
				"Link, um es festzulegen:\n\nhttps://www."+host+"/passwort?t="+m.number()+"\n\nFalls Sie das nicht waren, "+
				"müssen Sie nichts tun.\n\nIhr Team von "+m.word()+"\n"))
	},
	"password reset, French": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain("Compte <ne-pas-repondre@"+host+">", "Réinitialisation de votre mot de passe",
			"Bonjour "+m.name()+",\n\nNous avons reçu une demande de réinitialisation du mot de passe de votre compte. "+
				"Cliquez sur ce lien pour en choisir un nouveau :\n\nhttps://"+host+"/mdp/"+m.number()+
				"\n\nCe lien expire dans une heure.\n\nL'équipe "+m.word()+"\n"))
	},
	"password reset, Japanese": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain("アカウント <noreply@"+host+">", "パスワードの再設定",
			m.name()+" 様\n\nパスワード再設定のご依頼を受け付けました。下記のリンクから新しいパスワードを設定してください。\n\n"+
				"https://"+host+"/reset/"+m.number()+"\n\nお心当たりのない場合は、このメールを破棄してください。\n"))
	},
	"parcel notice, Dutch": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain("Bezorging <bezorging.noreply@"+host+">", "Je pakket komt eraan",
			"Beste "+m.name()+",\n\nje pakket van "+m.word()+" komt op "+m.date()+" tussen 12.15 en 14.45 uur. Volg het "+
				"hier: https://volg."+host+"/"+m.number()+"\n\nMet vriendelijke groet,\nde bezorger\n"))
	},
	"parcel notice, Polish": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain("Paczki <powiadomienia-noreply@"+host+">", "Paczka "+m.number()+" jest w drodze",
			"Dzień dobry,\n\npaczka numer "+m.number()+" od "+m.word()+" została nadana i dotrze do Ciebie "+m.date()+
				". Śledź ją tutaj: https://"+host+"/s/"+m.number()+"\n\nProsimy nie odpowiadać na tę wiadomość.\n"))
	},
	"login code, Italian": func(m maker) string {
		return m.automatic(m.plain("Sicurezza <sicurezza-noreply@"+m.host()+">", "Il tuo codice di accesso",
			"Ciao,\n\nil tuo codice di accesso è "+m.number()+". Scade tra dieci minuti. Non condividerlo con nessuno.\n"))
	},
	"login code, Portuguese": func(m maker) string {
		return m.automatic(m.plain("Conta <nao-responda@"+m.host()+">", m.number()+" é o seu código",
			"Use o código "+m.number()+" para entrar na sua conta "+m.word()+". Se não foi você, ignore este e-mail.\n"))
	},
	"login code, short": func(m maker) string {
		return m.automatic(m.plain("account@"+m.host(), "Code", m.number()+"\n"))
	},
	"new sign-in": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain(m.word()+" <alerts@"+host+">", "New sign-in to your account",
			"We noticed a new sign-in to your account "+m.address()+" from "+m.ip()+" at "+m.date()+". If this was you, there "+
				"is nothing to do. If not, secure your account: https://"+host+"/secure/"+m.number()+"\n"))
	},
	"shared document, Swedish": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain(m.name()+" <share@"+host+">", m.name()+" har delat en fil med dig",
			"Hej,\n\n"+m.name()+" har delat filen "+m.words(2)+" med dig. Öppna den här: https://fil."+host+"/f/"+m.number()+
				"\n\nLänken fungerar bara för dig.\n"))
	},
	"order notice, Spanish": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain("Tienda <pedidos@"+host+">", "Hemos recibido tu pedido "+m.number(),
			"Hola "+m.name()+":\n\nGracias por tu compra. Tu pedido "+m.number()+" con "+m.words(2)+" está en preparación. "+
				"Puedes consultarlo en https://"+host+"/pedido/"+m.number()+"\n"))
	},
	"out of office, German": func(m maker) string {
		return m.automatic(m.plain(m.name()+" <"+m.address()+">", "Automatische Antwort: "+m.words(2),
			"Guten Tag,\n\nich bin bis "+m.date()+" nicht im Büro und lese keine E-Mails. In dringenden Fällen wenden Sie sich "+
				"bitte an "+m.name()+", "+m.address()+".\n\nMit freundlichen Grüßen\n"+m.name()+"\n"))
	},
	"ticket received": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain("Helpdesk <support@"+host+">", "[#"+m.number()+"] We have received your request",
			"Hello,\n\nyour request "+m.number()+" was received and will be answered by our team. To add something, reply to "+
				"this mail or visit https://"+host+"/requests/"+m.number()+"\n"))
	},
	"backup report": func(m maker) string {
		return m.automatic(m.plain("cron@"+m.host(), "Backup of "+m.word()+" finished",
			"Backup job "+m.word()+" finished at "+m.date()+".\nFiles: "+m.number()+"\nBytes: "+m.number()+"\nErrors: 0\n"))
	},
	"banner alone": func(m maker) string {
		return m.plain(m.name()+" <"+m.address()+">", m.words(2), m.one(
			"CAUTION: This email originated from outside of the organization. Do not click links or open attachments "+
				"unless you recognize the sender and know the content is safe.\n",
			"EXTERNAL EMAIL: think before you click.\n",
			"Achtung: Diese E-Mail kommt von außerhalb. Öffnen Sie Anhänge nur, wenn Sie den Absender kennen.\n"))
	},
	"disclaimer alone": func(m maker) string {
		return m.plain(m.name()+" <"+m.address()+">", m.words(2), "\n\n-- \nThis e-mail and any attachments are "+
			"confidential and intended solely for the addressee. If you are not the intended recipient, please notify the "+
			"sender and delete this message. Any unauthorised copying, disclosure or distribution is strictly forbidden.\n")
	},
	"signature alone": func(m maker) string {
		return m.plain(m.name()+" <"+m.address()+">", m.words(2), "\n-- \n"+m.name()+"\n"+m.word()+" GmbH\n"+
			m.one("Sent from my phone\n", "Von meinem Mobiltelefon gesendet\n"))
	},
}
