"""Wire format: every MRC header as a Scapy layer and as a numpy dtype, and what other folders share of it."""
