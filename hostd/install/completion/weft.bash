# SPDX-License-Identifier: Apache-2.0
# bash completion for Weft's programs. Options, commands and choices are what --help says.

# What stands behind an option in --help: PATH, "soft|cuda|auto", nothing.
_weft_argument()
{
	"$1" --help 2>/dev/null | awk -v o="$2" '
		!found { for (i = 1; i < NF; i++) if ($i == o || $i == o ",") {
			v = $(i + 1)
			if ($i == o "," && v ~ /^-/) v = $(i + 2)
			if (v ~ /^[A-Z]/ && v !~ /^[A-Z][a-z]/ || v ~ /\|/) print v
			found = 1
		} }'
}

_weft_options()
{
	"$1" --help 2>/dev/null | awk '
		/^ +-/ { for (i = 1; i <= NF && $i ~ /^-/; i++) { sub(/,$/, "", $i); print $i } }'
}

_weft_commands()
{
	"$1" --help 2>/dev/null | awk '/^  [a-z]/ { print $1 }'
}

_weft_tenants()
{
	weftctl list 2>/dev/null | awk '/^TENANT/ { t = 1; next } t && !NF { exit } t { print $1 }'
}

# Completes the argument of an option by what --help calls it.
_weft_value()
{
	local argument
	argument=$(_weft_argument "$1" "$2")
	case $argument in
	'') return 1 ;;
	*'|'*) COMPREPLY=($(compgen -W "${argument//|/ }" -- "$cur")) ;;
	*PATH | *FILE) _filedir ;;
	DIR) _filedir -d ;;
	GROUP) COMPREPLY=($(compgen -g -- "$cur")) ;;
	NAME)
		case $2 in
		-t | --tenant) COMPREPLY=($(compgen -W "$(_weft_tenants)" -- "$cur")) ;;
		--user) COMPREPLY=($(compgen -u -- "$cur")) ;;
		--socket-group) COMPREPLY=($(compgen -g -- "$cur")) ;;
		*) COMPREPLY=() ;;
		esac
		;;
	*) COMPREPLY=() ;;
	esac
	return 0
}

# Words after weftctl's options: the command, its tenant, its keys.
_weft_ctl()
{
	local i command= n=0
	for ((i = 1; i < cword; i++)); do
		case ${words[i]} in
		-*) [[ -z $(_weft_argument "$1" "${words[i]}") ]] || ((i++)) ;;
		*) ((n++ == 0)) && command=${words[i]} ;;
		esac
	done
	if ((n == 0)); then
		COMPREPLY=($(compgen -W "$(_weft_commands "$1")" -- "$cur"))
	elif [[ $command == list || $command == top ]]; then
		COMPREPLY=($(compgen -W "$([[ $n != 1 ]] || echo tenants sessions)" -- "$cur"))
	elif ((n == 1)) || [[ $command == trace ]]; then
		COMPREPLY=($(compgen -W "$(_weft_tenants)" -- "$cur"))
	elif [[ $command == [gs]et ]]; then
		COMPREPLY=($(compgen -W "$(weftctl get "${words[cword - n + 1]}" 2>/dev/null |
			awk '{ print $1 }')" -- "$cur"))
		[[ $command == get ]] || { COMPREPLY=("${COMPREPLY[@]/%/=}"); compopt -o nospace; }
	fi
}

_weft()
{
	local cur prev words cword
	_init_completion -n = || return
	[[ $prev == -* ]] && _weft_value "$1" "$prev" && return
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$(_weft_options "$1")" -- "$cur"))
		return
	fi
	case ${1##*/} in
	weftctl) _weft_ctl "$1" ;;
	weft-run) _command_offset $(_weft_program_at) ;;
	esac
}

# Index of the program that weft-run is to run.
_weft_program_at()
{
	local i
	for ((i = 1; i < cword; i++)); do
		case ${words[i]} in
		--) echo $((i + 1)) && return ;;
		-*) [[ -z $(_weft_argument "${words[0]}" "${words[i]}") ]] || ((i++)) ;;
		*) break ;;
		esac
	done
	echo "$i"
}

complete -F _weft weftctl weftd weft-run weft-vsock weft-guest-check
