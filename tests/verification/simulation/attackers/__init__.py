"""The roles of attackers: each attacks with the knowledge and access of its role, and nothing
else."""
