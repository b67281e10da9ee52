package learning

// The senders of [Commercial]. All names, offers and texts are made up.
var commercial = []sender{
	{"Oakfield Books", 2, false, "New this week at Oakfield",
		"Our readers loved these three titles this month.|Every order ships the next working day.|" +
			"You receive this letter because you joined our reading club.|Members save ten percent " +
			"until Sunday.",
		"The Salt Road|Winter Harbour|A Garden of Maps|Letters to the Coast|The Glass Orchard", "Browse the shelf"},
	{"Kestrel Cycles", 3, false, "Spring service: book your slot",
		"Your bike has earned a check after the wet months.|We adjust brakes and gears while you " +
			"wait.|Free pick-up within five miles of the shop.|Unsubscribe at any time with the link " +
			"below.",
		"Brake pads|Chain and cassette|Puncture kit|Touring pannier", "Book a service"},
	{"Harbour Bank", 2, false, "Your monthly statement is ready",
		"Your statement for last month is now in the app.|We never ask for your password by mail.|" +
			"Visit any branch if you have a question about your account.|Interest on savings accounts " +
			"changes on the first of the month.",
		"Current account|Savings account|Credit card|Standing orders", "Open the app"},
	{"Millbrook Water", 0, false, "Planned work in your street",
		"We replace the main pipe in your street next week.|The supply will be off between nine " +
			"and noon.|Please keep a few litres of water ready.|We are sorry for the inconvenience.",
		"Mill Lane|Church Street|Station Road|Brook Close", "Details of the work"},
	{"Lumen Software", 1, false, "Release notes for version 8",
		"This release makes search twice as fast.|Administrators can now export the audit log.|" +
			"Please update before the end of the quarter, when version 6 is retired.|Your subscription " +
			"renews automatically.",
		"Faster search|Audit export|Dark theme|Keyboard shortcuts", "Read the notes"},
	{"Green Basket", 2, false, "Your order is on its way",
		"Thank you for your order.|The driver arrives between six and eight in the evening.|Fruit " +
			"that was out of season was replaced by the nearest match.|Rate your delivery in the app " +
			"and help us to improve.",
		"Apples|Oat milk|Sourdough|Carrots|Coffee beans", "Track the delivery"},
	{"Stadtwerke Talheim", 0, false, "Ihre Jahresabrechnung liegt bereit",
		"Ihre Abrechnung für das vergangene Jahr finden Sie im Kundenportal.|Der neue Abschlag " +
			"gilt ab dem nächsten Monat.|Bei Fragen erreichen Sie unseren Kundendienst werktags.|Bitte " +
			"antworten Sie nicht auf diese Nachricht.",
		"Strom|Erdgas|Wasser|Fernwärme", "Zum Kundenportal"},
	{"Buchhaus Linde", 3, false, "Neuerscheinungen im Herbst",
		"Unsere Buchhändlerinnen haben für Sie gelesen.|Ab einem Bestellwert von zwanzig Euro " +
			"liefern wir versandkostenfrei.|Sie erhalten diesen Newsletter, weil Sie sich angemeldet " +
			"haben.|Hier können Sie sich jederzeit abmelden.",
		"Der lange Sommer|Nebelkinder|Das Haus am Wehr|Stille Post", "Jetzt stöbern"},
	{"Volksbank Auental", 2, false, "Ihr Kontoauszug ist da",
		"Im Postfach Ihres Online-Bankings liegt ein neues Dokument.|Wir fragen Sie niemals nach " +
			"PIN oder TAN.|Unsere Filiale am Markt hat neue Öffnungszeiten.|Den Zins für Tagesgeld " +
			"finden Sie im Preisaushang.",
		"Girokonto|Tagesgeld|Depot|Kreditkarte", "Zum Postfach"},
	{"Bahnreisen Nord", 4, false, "Ihre Reservierung",
		"Vielen Dank für Ihre Buchung.|Bitte zeigen Sie die Fahrkarte mit einem Ausweis vor.|Ihr " +
			"Zug fährt von Gleis sieben.|Änderungen sind bis zum Vortag kostenlos.",
		"Hamburg|Lübeck|Kiel|Flensburg", "Fahrkarte anzeigen"},
	{"Librairie Colombe", 3, false, "Nos nouveautés de la semaine",
		"Découvrez les coups de coeur de nos libraires.|La livraison est offerte dès trente euros " +
			"d'achat.|Vous recevez ce message car vous êtes inscrit à notre lettre.|Pour vous " +
			"désabonner, cliquez sur le lien ci-dessous.",
		"La mer close|Un hiver à Lyon|Les heures bleues|Carnet de route", "Voir la sélection"},
	{"Banque du Littoral", 2, false, "Votre relevé mensuel est disponible",
		"Votre relevé est disponible dans votre espace client.|Nous ne demandons jamais votre mot " +
			"de passe par courriel.|Votre conseiller vous reçoit en agence sur rendez-vous.|Les tarifs " +
			"changent au premier janvier.",
		"Compte courant|Livret|Carte bancaire|Assurance", "Accéder à mon espace"},
	{"Mairie de Valbois", 0, false, "Lettre d'information municipale",
		"Le conseil se réunit jeudi soir en mairie.|La collecte du verre est décalée d'un jour.|" +
			"Les inscriptions à la cantine ouvrent lundi.|La médiathèque est fermée pour travaux.",
		"Fête de la musique|Marché de Noël|Vide-grenier|Course des collines", "Lire la suite"},
	{"Tienda Olivar", 3, false, "Ofertas de temporada",
		"Esta semana el aceite nuevo llega a nuestra tienda.|El envío es gratis a partir de " +
			"cuarenta euros.|Recibe este boletín porque es cliente de nuestra tienda.|Puede darse de " +
			"baja en cualquier momento.",
		"Aceite virgen|Queso curado|Miel de romero|Almendras", "Ver las ofertas"},
	{"Banco Ribera", 2, false, "Tiene un nuevo documento",
		"Ya puede consultar el extracto del mes en la banca en línea.|Nunca le pediremos sus " +
			"claves por correo.|Nuestra oficina de la plaza amplía su horario.|Consulte las " +
			"condiciones de su tarjeta.",
		"Cuenta nómina|Depósito|Hipoteca|Tarjeta", "Entrar en mi banca"},
	{"Libreria Torchio", 1, false, "Le novità di questo mese",
		"I nostri librai consigliano tre romanzi per l'estate.|La spedizione è gratuita sopra i " +
			"trenta euro.|Ricevi questa lettera perché sei iscritto al nostro club.|Puoi annullare " +
			"l'iscrizione quando vuoi.",
		"Il faro spento|Terra di vento|La casa gialla|Quaderni", "Scopri i libri"},
	{"Trenolinea", 4, false, "Conferma della prenotazione",
		"Grazie per il tuo acquisto.|Il biglietto è allegato e valido solo con un documento.|Il " +
			"treno parte dal binario quattro.|Il cambio è gratuito fino al giorno prima.",
		"Bologna|Verona|Trento|Ferrara", "Mostra il biglietto"},
	{"Waterschap Rijnmond", 0, false, "Uw aanslag staat klaar",
		"Uw aanslag voor dit jaar staat klaar in het loket.|U kunt in tien termijnen betalen.|" +
			"Heeft u vragen, bel dan ons klantcontact.|Op dit bericht kunt u niet antwoorden.",
		"Zuiveringsheffing|Watersysteem|Ingezetenen|Gebouwd", "Naar het loket"},
	{"Fietsenwinkel Zwaan", 3, false, "Winterbeurt met korting",
		"Laat uw fiets nakijken voor de winter.|Wij halen gratis op binnen de stad.|U ontvangt " +
			"deze mail als klant van onze winkel.|Afmelden kan onderaan deze brief.",
		"Verlichting|Remblokken|Banden|Kettingset", "Maak een afspraak"},
	{"Ksiegarnia Sowa", 2, false, "Nowości w naszej księgarni",
		"Polecamy trzy książki na długie wieczory.|Dostawa jest bezpłatna od stu złotych.|" +
			"Otrzymujesz tę wiadomość, bo zapisałeś się do klubu.|Możesz wypisać się w każdej chwili.",
		"Zimowy port|Ogród map|Szklany sad|Listy", "Zobacz książki"},
	{"Bank Wislany", 2, false, "Wyciąg z rachunku jest gotowy",
		"Wyciąg za ostatni miesiąc czeka w bankowości internetowej.|Nigdy nie prosimy o hasło w " +
			"wiadomości.|Oddział przy rynku ma nowe godziny otwarcia.|Zmieniamy oprocentowanie lokat.",
		"Konto|Lokata|Karta|Kredyt", "Zaloguj się do banku"},
	{"Livraria Maresia", 3, false, "As novidades da semana",
		"Os nossos livreiros escolheram três romances.|A entrega é grátis a partir de vinte euros.|" +
			"Recebe esta mensagem porque se inscreveu no clube.|Pode cancelar a subscrição a qualquer " +
			"momento.",
		"O farol|Casa de vento|Diário do mar|Cartas", "Ver os livros"},
	{"Elbolaget Norr", 0, false, "Din faktura för månaden",
		"Din faktura finns nu på Mina sidor.|Förbrukningen var lägre än i fjol.|Kundtjänst har " +
			"öppet på vardagar.|Det går inte att svara på detta meddelande.",
		"Elnät|Elhandel|Fjärrvärme|Bredband", "Till Mina sidor"},
	{"Boghandel Lyng", 1, false, "Månedens bøger",
		"Vores boghandlere anbefaler tre romaner i denne måned.|Fri fragt ved køb over tre " +
			"hundrede kroner.|Du får dette brev, fordi du er medlem af klubben.|Du kan altid melde dig " +
			"fra.",
		"Havnen|Glashaven|Breve|Vinterlys", "Se bøgerne"},
	{"Knihy Javor", 2, false, "Novinky tohoto týdne",
		"Naši knihkupci vybrali tři romány na zimu.|Doprava je zdarma od tisíce korun.|Tento dopis " +
			"dostáváte jako člen klubu.|Odhlásit se můžete kdykoli.",
		"Přístav|Zahrada map|Dopisy|Skleněný sad", "Prohlédnout knihy"},
	{"Aosora Shoten", 3, true, "今週の新刊のお知らせ",
		"今週のおすすめの本を三冊ご紹介します。|三千円以上のご注文は送料無料です。|このメールは会員の皆様にお送りしています。|配信停止は下のリンクからお手続きください。",
		"冬の港|地図の庭|硝子の果樹園|手紙", "本を見る"},
	{"Knyharnia Kalyna", 0, true, "Новинки нашої книгарні",
		"Наші книгарі радять три романи на зиму.|Доставка безкоштовна від тисячі гривень.|Ви " +
			"отримали цей лист, бо є членом клубу.|Відписатися можна будь-коли.",
		"Зимова гавань|Сад мап|Листи|Скляний сад", "Переглянути книги"},
	{"Fjord Ferries", 4, true, "Your booking is confirmed",
		"Thank you for travelling with us.|Please be at the quay twenty minutes before departure.|" +
			"Show this confirmation on your phone when you board.|In heavy weather the crossing may be " +
			"cancelled and refunded.",
		"Outward crossing|Return crossing|Bicycle|Cabin", "View the booking"},
	{"Praxis am Markt", 0, true, "Erinnerung an Ihren Termin",
		"Wir erinnern an Ihren Termin in der kommenden Woche.|Bitte bringen Sie die " +
			"Versichertenkarte mit.|Absagen nehmen wir bis zum Vortag telefonisch an.|Ihre Praxis am " +
			"Markt.",
		"Vorsorge|Impfung|Kontrolle|Beratung", "Termin verschieben"},
	{"Parcel Point", 2, true, "Your parcel arrives tomorrow",
		"Your parcel left our depot this evening.|The driver arrives between ten and twelve.|You " +
			"can choose a neighbour or a shop instead.|No payment is needed for this delivery.",
		"Standard parcel|Letterbox parcel|Return|Express", "Change the delivery"},
}

// lures are kinds of spam that look like the senders of [commercial].
var lures = []sender{
	{"Secure Bank Alert", 2, false, "Your account is limited",
		"We noticed unusual activity on your account.|Your account has been limited until you " +
			"verify your details.|Confirm your password within 24 hours or your account will be " +
			"closed.|This is an automatic message.",
		"Verify identity|Update card|Confirm password", "Verify now"},
	{"Delivery Desk", 2, false, "Your parcel is on hold",
		"Your parcel could not be delivered.|A customs fee of two euros is unpaid.|Pay the fee " +
			"within 24 hours or the parcel will be returned.|Your parcel waits in our depot.",
		"Unpaid fee|Customs|Final notice", "Pay the fee"},
	{"Mega Deals", 3, false, "You have won a voucher",
		"Congratulations, you are our winner today.|Claim your free voucher before midnight.|Only " +
			"three vouchers are left, act now.|Answer a short survey to receive the prize.",
		"Free phone|Gift card|Luxury watch", "Claim the prize"},
	{"Mailbox Support", 4, false, "Your mailbox is full",
		"Your mailbox has exceeded its storage limit.|Incoming messages are held until you " +
			"upgrade.|Sign in with your password to keep your messages.|Your mailbox will be " +
			"deactivated today.",
		"Held messages|Upgrade quota|Deactivation", "Upgrade the mailbox"},
	{"Health Miracle", 3, false, "Doctors hate this",
		"Lose ten kilos in two weeks without a diet.|This secret formula melts fat overnight.|" +
			"Order today and save eighty percent.|Limited offer, act now.",
		"Miracle drops|Slim tea|Detox pills", "Order now"},
	{"Crypto Profit", 1, false, "Earn daily with one click",
		"Our robot earned a thousand a day for its members.|Invest a small amount and double it " +
			"tomorrow.|Your profit is guaranteed by the algorithm.|Only a few places are left.",
		"Bitcoin robot|Guaranteed profit|Bonus", "Join now"},
	{"Konto Sicherheit", 2, false, "Ihr Konto wurde eingeschränkt",
		"Wir haben ungewöhnliche Aktivitäten festgestellt.|Ihr Konto wurde vorübergehend gesperrt.|" +
			"Bestätigen Sie Ihre Daten innerhalb von 24 Stunden.|Sonst wird Ihr Konto endgültig " +
			"gesperrt.",
		"Daten bestätigen|Karte aktualisieren|Identität", "Jetzt bestätigen"},
	{"Service Client", 2, false, "Votre compte est suspendu",
		"Votre compte est suspendu suite à une activité inhabituelle.|Confirmez votre mot de passe " +
			"sous 24 heures.|Sans réponse, votre compte sera fermé.|Un remboursement est en attente.",
		"Vérification|Remboursement|Dernier avis", "Confirmer maintenant"},
	{"Premio Seguro", 3, false, "Ha ganado un premio",
		"Enhorabuena, usted es el ganador de hoy.|Reclame su premio antes de la medianoche.|" +
			"Responda una encuesta corta y reciba su regalo.|Quedan pocas unidades.",
		"Teléfono gratis|Tarjeta regalo|Sorteo", "Reclamar el premio"},
	{"Loan Express", 0, false, "Your loan is approved",
		"Your loan is approved without any check.|Send your account details to receive the money " +
			"today.|Reply within 24 hours, this offer is final.|No documents are needed.",
		"Instant cash|No checks|Low rates", "Get the money"},
}
