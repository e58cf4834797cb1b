#!/bin/sh
# Makes the videos beside this script with ffmpeg (5.1 was used) and its libx264, libx265 and libvpx.
#
# Every frame has red 3 x, green 4 y and blue 20 + 15 n at column x and row y of frame n, so that a test
# knows what it must see.
set -eu
frames="color=s=66x50:r=25:d=0.48,format=gbrp,geq=r='X*3':g='Y*4':b='20+N*15'"
bt709="scale=out_color_matrix=bt709:flags=accurate_rnd+full_chroma_int"
tags="-colorspace bt709 -color_primaries bt709 -color_trc bt709"
x264="-c:v libx264 -crf 12 -x264-params bframes=3:b-adapt=0:keyint=8:no-info=1 -pix_fmt yuv420p -fflags +bitexact -flags:v +bitexact"
run() { ffmpeg -v error -y -f lavfi -i "$frames" "$@"; }

run -vf "$bt709" $x264 $tags b-frames.mp4
run -vf "$bt709" $x264 $tags -movflags frag_keyframe+empty_moov+default_base_moof fragmented.mp4
run -vf "$bt709" $x264 $tags turned-plain.mov
ffmpeg -v error -y -display_rotation 270 -i turned-plain.mov -c copy -fflags +bitexact turned.mov || \
  ffmpeg -v error -y -i turned-plain.mov -c copy -metadata:s:v rotate=90 -fflags +bitexact turned.mov
rm turned-plain.mov
run -vf "scale=out_color_matrix=bt601:out_range=pc:flags=accurate_rnd+full_chroma_int" $x264 \
  -colorspace smpte170m -color_range pc full-range.mp4
# Untagged: what ffmpeg makes when nobody asks for anything.
run $x264 untagged.mp4
# Cut without encoding again: the edit list hides the first frames.
ffmpeg -v error -y -ss 0.12 -i b-frames.mp4 -c copy -fflags +bitexact cut.mp4
run -c:v libx265 -x265-params log-level=error:info=0 -pix_fmt yuv420p -tag:v hvc1 -fflags +bitexact hevc.mp4
run -c:v libx264 -crf 30 -pix_fmt yuv444p -x264-params no-info=1 -fflags +bitexact -flags:v +bitexact 444.mp4
# Pixels of 3:2, turned by a quarter: 66 x 50 are shown as 50 x 99.
run -vf "$bt709,setsar=3/2" $x264 $tags stretched-plain.mov
ffmpeg -v error -y -display_rotation 270 -i stretched-plain.mov -c copy -fflags +bitexact stretched.mov || \
  ffmpeg -v error -y -i stretched-plain.mov -c copy -metadata:s:v rotate=90 -fflags +bitexact stretched.mov
rm stretched-plain.mov
run -vf "crop=64:48,tinterlace=interleave_top" $x264 -flags:v +ildct+ilme+bitexact interlaced.mp4
# The frames of b-frames.mp4 with another transfer in their header.
run -vf "$bt709" $x264 $tags -color_trc arib-std-b67 hlg.mp4
# Converted colours, and HDR whose peak only the frames declare (H.264 in MP4, HEVC in Matroska).
run -frames:v 1 -vf "scale=out_color_matrix=bt2020:flags=accurate_rnd+full_chroma_int" $x264 \
  -colorspace bt2020nc -color_primaries bt2020 -color_trc bt2020-10 bt2020.mp4
display="G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(40000000,50)"
run -frames:v 2 -vf "scale=out_color_matrix=bt2020:flags=accurate_rnd+full_chroma_int" -c:v libx264 -crf 30 \
  -x264-params "mastering-display=$display:cll=1500,400:no-info=1" -pix_fmt yuv420p -fflags +bitexact -flags:v +bitexact \
  -colorspace bt2020nc -color_primaries bt2020 -color_trc smpte2084 pq-frames.mp4
run -frames:v 2 -vf "scale=out_color_matrix=bt2020:flags=accurate_rnd+full_chroma_int" -c:v libx265 -x265-params \
  "colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:master-display=$display:max-cll=1500,400:log-level=error:info=0" \
  -pix_fmt yuv420p10le -fflags +bitexact pq-frames.mkv
# Frame n is opaque up to column 8 + 8 n.
ffmpeg -v error -y -f lavfi -i "color=s=32x16:r=10:d=0.3,format=yuva420p,geq=lum=120:cb=90:cr=180:a='if(lt(X,8+8*N),255,0)'" \
  -c:v libvpx-vp9 -auto-alt-ref 0 -crf 20 -b:v 0 -fflags +bitexact -flags:v +bitexact alpha.webm
# With sound, as an MP4, a MOV and a WebM have it; it begins 0.1 s late in the second one.
sound="sine=f=440:r=16000:d=0.5"
aac="-c:a aac -b:a 24k -flags:a +bitexact"
with_sound() { ffmpeg -v error -y -f lavfi -i "$frames" "$@" -fflags +bitexact; }
with_sound -f lavfi -i "$sound" -vf "$bt709" $x264 $tags $aac sound.mp4
with_sound -itsoffset 0.1 -f lavfi -i "$sound" -vf "$bt709" $x264 $tags $aac sound-late.mov
with_sound -f lavfi -i "$sound" -vf "$bt709" $x264 $tags $aac \
  -movflags frag_keyframe+empty_moov+default_base_moof sound-fragmented.mp4
with_sound -f lavfi -i "$sound" -c:v libvpx -g 1 -crf 60 -b:v 30k -c:a libopus -b:a 12k opus.webm
with_sound -f lavfi -i "$sound" -c:v libvpx -g 1 -crf 60 -b:v 30k -c:a libvorbis vorbis.webm
with_sound -f lavfi -i "$sound" -vf "$bt709" $x264 $tags -c:a pcm_s16le pcm.mov
# Uneven frame times with frames stored out of order: frame n begins at 40 n + 4 n² ms. The second file is the first in
# fragments, and the third begins at its frame 3 by its edit list.
run -vf "$bt709,settb=1/1000,setpts='40*N+4*N*N'" -fps_mode passthrough -enc_time_base 1/1000 $x264 $tags uneven.mp4
ffmpeg -v error -y -i uneven.mp4 -c copy -movflags frag_keyframe+empty_moov+default_base_moof \
  -fflags +bitexact uneven-fragmented.mp4
ffmpeg -v error -y -ss 0.156 -i uneven.mp4 -c copy -fflags +bitexact uneven-cut.mp4
python3 cleared.py
