"""Bytes: every MRC header, stated as Scapy layers and as numpy dtypes; all folders may import it."""
