"""Wire format: every MRC header as a Scapy layer and as a numpy dtype; all folders may import it."""
