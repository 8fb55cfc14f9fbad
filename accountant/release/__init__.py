"""What stands between a certificate and a released value: the permit, its order, its noise, its journal."""
