-- wrk script: every request has another text, from a file of bodies, one a line; ARGS: the file, the content type.
local bodies, at = {}, 0
function init(args)
  for line in io.lines(args[1]) do bodies[#bodies + 1] = line end
  wrk.method = "POST"
  wrk.headers["content-type"] = args[2]
end
function request()
  at = at % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[at])
end
