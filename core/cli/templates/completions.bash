
# Bash splits words at `=` and `:`. The program gets them whole, and bash gets what follows the last of these.
_curricle() {
    local words=() word i rest=$COMP_LINE
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $rest != [[:space:]]* ]]; then
            words[-1]+=$word
        else
            words+=("$word")
            rest=${rest#"${rest%%[![:space:]]*}"}
        fi
        rest=${rest#"$word"}
    done
    # What is right of the cursor is not yet part of the word; `$2` is its last piece.
    local whole=${words[-1]}
    [[ $word == [=:] ]] || whole=${whole%"$word"}$2
    words[-1]=$whole
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
    _clap_complete_curricle "$1" "$whole" "$3"
    COMPREPLY=("${COMPREPLY[@]#"${whole%"$2"}"}")
}
complete -o nospace -o bashdefault -o nosort -F _curricle curricle
