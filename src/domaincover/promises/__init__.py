"""Statements about new domains: certificates, plans and confidence bounds."""
