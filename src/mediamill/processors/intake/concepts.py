"""What the usual fields of business documents are called, in English and German (some in French).

A phrase after `~` is a weak one: the word alone often means something else.
"""

from __future__ import annotations

from dataclasses import dataclass

WEAK = 0.75


@dataclass(frozen=True, slots=True)
class Concept:
    """`kind`: the shape of its values if they are texts."""

    name: str
    kind: str
    phrases: tuple[str, ...]
    weak: tuple[str, ...]


_TOLD = """
invoice_number identifier: invoice number, invoice no, invoice id, inv no, inv number, bill number, bill no, \
tax invoice no, rechnungsnummer, rechnungs nr, rechnung nr, rechnungsnr, re nr, belegnummer, beleg nr, \
credit note number, gutschriftsnummer, numéro de facture, facture no, ~invoice, ~tax invoice, ~rechnung, ~facture
invoice_date date: invoice date, date of invoice, bill date, billing date, date of issue, issue date, issued, \
issued on, date issued, rechnungsdatum, datum der rechnung, belegdatum, ausstellungsdatum, date de facture, \
rechnung vom, invoice dated, ~vom, ~dated
due_date date: due date, payment due, due by, due on, date due, pay by, payment due date, payable by, payable until, \
zahlbar bis, fällig am, fälligkeitsdatum, fälligkeit, zahlungsziel, zahlungstermin, zu zahlen bis, date d'échéance, \
please pay by, ~due
order_number identifier: order number, order no, order id, purchase order, purchase order number, po number, po no, \
your order, bestellnummer, bestell nr, auftragsnummer, auftrags nr, auftrag nr, ihre bestellung, bestellung nr, ~order
order_date date: order date, date of order, bestelldatum, auftragsdatum
customer_number identifier: customer number, customer no, customer id, client number, client no, account number, \
account no, kundennummer, kunden nr, kundennr, kd nr, debitorennummer, numéro client
contract_number identifier: contract number, contract no, contract id, agreement number, agreement no, \
policy number, policy no, vertragsnummer, vertrags nr, vertrag nr, vertragskonto, versicherungsnummer, policennummer
delivery_date date: delivery date, date of delivery, date of supply, service date, date of service, shipping date, \
delivered on, lieferdatum, leistungsdatum, liefertermin, lieferdatum leistungsdatum, liefer leistungsdatum, versanddatum
delivery_number identifier: delivery note number, delivery note no, delivery number, delivery note, \
lieferscheinnummer, lieferschein nr, lieferscheinnr, tracking number, sendungsnummer, ~lieferschein
total amount: total, grand total, total amount, amount due, total due, invoice total, total amount due, balance due, \
total payable, amount payable, total gross, gross total, gross amount, total incl vat, total including vat, \
total inc vat, total incl tax, total to pay, sum total, invoice amount, gesamtbetrag, gesamtsumme, rechnungsbetrag, \
endbetrag, bruttobetrag, summe brutto, gesamt brutto, gesamtbetrag brutto, gesamt, zu zahlen, zu zahlender betrag, \
zahlbetrag, rechnungssumme, endsumme, brutto, betrag brutto, total ttc, montant total, gesamtpreis brutto, ~summe, \
~betrag, ~amount
net amount: net, subtotal, sub total, net total, net amount, total net, total excl vat, total excluding vat, \
amount net, total before tax, taxable amount, total ex vat, nettobetrag, netto, zwischensumme, summe netto, \
gesamt netto, warenwert, nettosumme, betrag netto, total ht, sous total
vat amount: vat, vat amount, sales tax, tax amount, tax, value added tax, total vat, total tax, gst, plus vat, mwst, \
ust, mehrwertsteuer, umsatzsteuer, mwst betrag, ust betrag, umsatzsteuerbetrag, steuerbetrag, zzgl mwst, zzgl ust, \
zzgl umsatzsteuer, zzgl mehrwertsteuer, gesetzliche mwst, enthaltene mwst, tva, montant tva
vat_rate number: vat rate, tax rate, vat percent, mwst satz, ust satz, steuersatz, mehrwertsteuersatz, umsatzsteuersatz
discount amount: discount, rabatt, nachlass, skonto
shipping amount: shipping, shipping costs, freight, postage, versand, versandkosten, porto, fracht
deposit amount: deposit, security deposit, kaution, anzahlung, down payment
rent amount: rent, monthly rent, miete, kaltmiete, monatliche miete, nettokaltmiete
salary amount: salary, gross salary, gehalt, bruttogehalt, monthly salary
price amount: price, unit price, list price, preis, stückpreis, einzelpreis, listenpreis
currency currency: currency, währung, devise
iban iban: iban, iban no, iban nr, bank account, bankverbindung, kontonummer, konto
bic bic: bic, swift, swift code, bic swift, swift bic, bic code
vat_id vat_id: vat id, vat no, vat number, vat reg no, vat registration number, vat registration no, tax id, \
ust id, ust idnr, ust id nr, ustidnr, umsatzsteuer id, umsatzsteuer identifikationsnummer, uid, uid nr, mwst nr, \
company vat no
tax_number identifier: tax number, tax no, steuernummer, steuer nr, st nr, finanzamt steuernummer
email email: email, e mail, mail, email address, e mail adresse, mailadresse
phone phone: phone, telephone, tel, phone number, telephone number, mobile, telefon, telefonnummer, mobil, fon, handy
website text: website, web, homepage, internet, www
supplier text: supplier, vendor, seller, issued by, biller, lieferant, rechnungssteller, verkäufer, aussteller, \
fournisseur, ~from
customer text: customer, client, buyer, bill to, billed to, invoice to, sold to, recipient, customer name, kunde, \
käufer, rechnungsempfänger, empfänger, auftraggeber, kundenname, rechnungsadresse, ~to
contact text: contact, contact person, attention, attn, ansprechpartner, kontakt, sachbearbeiter, bearbeiter, z hd
reference identifier: reference, ref, reference number, reference no, our reference, our ref, your reference, \
your ref, aktenzeichen, zeichen, unser zeichen, ihr zeichen, referenz, referenznummer, geschäftszeichen, \
verwendungszweck, payment reference, file number
subject text: subject, re, regarding, betreff, betr, objet
date date: date, datum, dated, letter date, document date, briefdatum, date du document
meter_number identifier: meter number, meter no, meter id, meter serial, zählernummer, zähler nr, zählernr, \
counter number, gerätenummer, ~meter, ~zähler
meter_reading number: meter reading, reading, current reading, counter reading, zählerstand, zählerstand neu, \
stand neu, ablesewert, meter value, zählerwert, stand
reading_date date: reading date, date of reading, read on, ablesedatum, abgelesen am, datum der ablesung
consumption number: consumption, usage, energy used, verbrauch, energieverbrauch, stromverbrauch
serial_number identifier: serial number, serial no, serial, s n, sn, ser no, ser nr, seriennummer, serien nr, \
seriennr, fabrikationsnummer, fabriknummer, fabrik nr, device number, gerätenr, numéro de série
part_number identifier: part number, part no, article number, article no, item number, item no, sku, order code, \
product code, product number, catalogue number, artikelnummer, artikel nr, art nr, teilenummer, materialnummer, \
bestellcode, typnummer
model text: model, model name, model number, model no, type, type designation, product, product name, device, \
modell, typ, typenbezeichnung, typbezeichnung, produkt, produktname, bezeichnung, gerät
manufacturer text: manufacturer, made by, producer, brand, make, hersteller, marke, fabrikat, fabricant
power number: power, rated power, nominal power, output power, power output, rated output, max power, \
power consumption, power rating, leistung, nennleistung, nennausgangsleistung, ausgangsleistung, bemessungsleistung, \
leistungsaufnahme, puissance
voltage number: voltage, rated voltage, nominal voltage, supply voltage, input voltage, operating voltage, spannung, \
nennspannung, versorgungsspannung, betriebsspannung, eingangsspannung, netzspannung, tension
current number: current, rated current, nominal current, max current, strom, nennstrom, stromaufnahme, bemessungsstrom
frequency number: frequency, rated frequency, mains frequency, frequenz, netzfrequenz, nennfrequenz
efficiency number: efficiency, max efficiency, efficiency rating, wirkungsgrad, rendement
weight number: weight, net weight, gross weight, mass, total weight, gewicht, nettogewicht, bruttogewicht, masse, poids
length number: length, overall length, länge, gesamtlänge, longueur
width number: width, overall width, breite, largeur
height number: height, overall height, höhe, hauteur
depth number: depth, tiefe, profondeur
dimensions text: dimensions, size, abmessungen, maße, masse b h t, größe, abmessung
diameter number: diameter, durchmesser
temperature number: temperature, operating temperature, ambient temperature, temperatur, betriebstemperatur, \
umgebungstemperatur
pressure number: pressure, max pressure, operating pressure, nominal pressure, druck, betriebsdruck, nenndruck
speed number: speed, rated speed, rotational speed, drehzahl, nenndrehzahl, geschwindigkeit
capacity number: capacity, rated capacity, battery capacity, kapazität, nennkapazität, akkukapazität, fassungsvermögen
volume number: volume, volumen, rauminhalt, inhalt
noise number: noise, noise level, sound level, sound pressure level, schallpegel, schalldruckpegel, geräuschpegel
protection text: protection class, protection rating, ingress protection, ip rating, degree of protection, schutzart, \
schutzklasse
warranty number: warranty, guarantee, warranty period, garantie, gewährleistung, garantiezeit
quantity number: quantity, qty, amount of pieces, number of items, menge, anzahl, stückzahl, quantité
start_date date: start date, commencement date, effective date, begins on, starts on, start, valid from, from date, \
contract start, start of contract, begin date, vertragsbeginn, beginn, startdatum, gültig ab, ab dem, mietbeginn, \
arbeitsbeginn, laufzeitbeginn, inkrafttreten
end_date date: end date, expiry date, expiration date, termination date, ends on, valid until, contract end, \
end of contract, expires, expires on, vertragsende, ende, enddatum, gültig bis, laufzeitende, ablaufdatum, mietende
notice_period number: notice period, period of notice, termination notice, kündigungsfrist
term number: term, contract term, duration, minimum term, laufzeit, vertragslaufzeit, mindestlaufzeit, vertragsdauer
birth_date date: date of birth, birth date, dob, born, born on, geburtsdatum, geboren am, geb
first_party text: landlord, lessor, employer, provider, contractor, licensor, vermieter, arbeitgeber, auftragnehmer, \
dienstleister, anbieter
second_party text: tenant, lessee, employee, licensee, mieter, arbeitnehmer
signed boolean: signed, signature present, unterschrieben, unterzeichnet
address text: address, street, adresse, anschrift, straße, adresse postale
place text: place, location, city, ort, standort, stadt, lieu
name text: name, full name, vorname, nachname, nom
title text: title, titel, titre
author text: author, written by, verfasser, autor, auteur
status text: status, state, zustand
category text: category, kategorie, rubrik
quality_certificate identifier: certificate number, certificate no, zertifikatsnummer, zertifikat nr
batch identifier: batch, batch number, batch no, lot, lot number, charge, chargennummer, chargen nr
production_date date: production date, manufacturing date, date of manufacture, year of manufacture, baujahr, \
herstellungsdatum, produktionsdatum
page_number none: page, seite
"""


def _read(line: str) -> Concept:
    head, _, words = line.partition(": ")
    name, kind = head.split()
    phrases = [phrase.strip() for phrase in words.split(", ")]
    strong = tuple(phrase for phrase in phrases if not phrase.startswith("~"))
    return Concept(name, kind, strong, tuple(phrase[1:] for phrase in phrases if phrase.startswith("~")))


CONCEPTS = {concept.name: concept for concept in map(_read, filter(None, _TOLD.splitlines()))}
